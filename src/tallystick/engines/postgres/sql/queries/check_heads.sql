-- Streams whose recorded end is not the end of their events, or of what was pruned of them.
SELECT 'head', CASE WHEN head.seq IS DISTINCT FROM last.seq
        THEN 'its events end at seq ' || coalesce(last.seq, 0) || ', its recorded end is ' || coalesce(head.seq, 0)
        ELSE 'its recorded link is not that of its last event' END,
    0, coalesce(head.stream, last.stream), coalesce(head.seq, 0)
FROM tally.streams AS head
FULL JOIN (
    SELECT DISTINCT ON (stream) stream, seq, link
    FROM (SELECT stream, seq, link FROM tally.events UNION ALL SELECT stream, through, link FROM tally.cuts) AS known
    ORDER BY stream, seq DESC
) AS last ON last.stream = head.stream
WHERE head.seq IS DISTINCT FROM last.seq OR head.link IS DISTINCT FROM last.link
