-- The last event, and the position that is drawn next. Only certain in a commit that has locked the whole log.
SELECT (SELECT coalesce(max(position), 0) FROM tally.events), last_value + is_called::integer FROM tally.positions
