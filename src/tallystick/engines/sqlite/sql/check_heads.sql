-- Streams whose recorded end is not the end of their events, or of what was pruned of them.
SELECT streams.stream, streams.seq, coalesce(last.seq, gone.through)
FROM streams
LEFT JOIN events AS last
    ON last.stream = streams.stream
    AND last.seq = (SELECT max(seq) FROM events WHERE stream = streams.stream)
LEFT JOIN cuts AS gone
    ON gone.stream = streams.stream
    AND gone.through = (SELECT max(through) FROM cuts WHERE stream = streams.stream)
WHERE coalesce(last.seq, gone.through) IS NOT streams.seq OR coalesce(last.link, gone.link) IS NOT streams.link
UNION ALL
SELECT stream, 0, max(seq)
FROM (SELECT stream, seq FROM events UNION ALL SELECT stream, through FROM cuts)
WHERE stream NOT IN (SELECT stream FROM streams)
GROUP BY stream
