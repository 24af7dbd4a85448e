-- The recorded end of a stream, and the end of its events or, without any, of its cut. They differ if one is damaged.
SELECT ends.seq, ends.link, ends.org, coalesce(last.seq, gone.through), coalesce(last.link, gone.link)
FROM (SELECT ? AS stream) AS asked
LEFT JOIN streams AS ends ON ends.stream = asked.stream
LEFT JOIN events AS last
    ON last.stream = asked.stream
    AND last.seq = (SELECT max(seq) FROM events WHERE stream = asked.stream)
LEFT JOIN cuts AS gone
    ON last.seq IS NULL AND gone.stream = asked.stream
    AND gone.through = (SELECT max(through) FROM cuts WHERE stream = asked.stream)
