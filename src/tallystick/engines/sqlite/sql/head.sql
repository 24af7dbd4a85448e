-- Not max(position): a position is never given twice, even if the event that had it is pruned one day.
SELECT seq FROM sqlite_sequence WHERE name = 'events'
