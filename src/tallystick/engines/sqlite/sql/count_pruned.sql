-- How many positions of a range have no event and are not lost: they were pruned or never used.
SELECT (SELECT count(*) FROM pruned WHERE position BETWEEN ?1 AND ?2)
    + (SELECT coalesce(sum(min(last, ?2) - max(first, ?1) + 1), 0) FROM skipped WHERE last >= ?1 AND first <= ?2)
