-- Asked by a commit that holds the log alone: the last event, and the position that is drawn next.
SELECT (SELECT coalesce(max(position), 0) FROM tally.events), last_value + is_called::integer FROM tally.positions
