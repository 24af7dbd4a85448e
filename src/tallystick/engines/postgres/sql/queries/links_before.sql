-- The links of the events before these, from the cut if the event before was pruned.
SELECT asked.position, before.link
FROM unnest(%s::bigint[], %s::text[], %s::bigint[]) AS asked (position, stream, seq)
JOIN tally.events AS before ON before.stream = asked.stream AND before.seq = asked.seq - 1
UNION ALL
SELECT asked.position, cut.link
FROM unnest(%s::bigint[], %s::text[], %s::bigint[]) AS asked (position, stream, seq)
JOIN tally.cuts AS cut ON cut.stream = asked.stream AND cut.through = asked.seq - 1
