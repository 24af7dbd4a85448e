SELECT max(first, ?1), min(last, ?2) FROM skipped WHERE last >= ?1 AND first <= ?2
