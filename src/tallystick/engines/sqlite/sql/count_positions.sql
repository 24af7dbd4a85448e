-- How many events there are, how many are recorded as pruned, how many the cuts say were, the last position, and how
-- many positions were never used.
SELECT (SELECT count(*) FROM events),
    (SELECT count(*) FROM pruned),
    (SELECT coalesce(sum(count), 0) FROM (SELECT max(count) AS count FROM cuts GROUP BY stream)),
    (SELECT coalesce(max(position), 0) FROM events),
    (SELECT coalesce(sum(last - first + 1), 0) FROM skipped)
