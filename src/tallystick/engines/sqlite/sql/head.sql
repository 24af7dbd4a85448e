-- Not max(position): a position is never assigned twice, even after the event that had it was pruned.
SELECT seq FROM sqlite_sequence WHERE name = 'events'
