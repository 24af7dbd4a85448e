-- The index of tags, and what a prune keeps for it. Events of older formats have no list of tags.

ALTER TABLE pruned ADD COLUMN type TEXT;
ALTER TABLE pruned ADD COLUMN org TEXT;

DROP TRIGGER pruned_events_are_noted;
