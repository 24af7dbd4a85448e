-- Streams whose recorded end is not the end of their events.
SELECT streams.stream, streams.seq, last.seq, last.link IS streams.link
FROM streams
LEFT JOIN events AS last
    ON last.stream = streams.stream
    AND last.seq = (SELECT max(seq) FROM events WHERE stream = streams.stream)
WHERE last.seq IS NOT streams.seq OR last.link IS NOT streams.link
UNION ALL
SELECT stream, 0, max(seq), 0
FROM events
WHERE stream NOT IN (SELECT stream FROM streams)
GROUP BY stream
