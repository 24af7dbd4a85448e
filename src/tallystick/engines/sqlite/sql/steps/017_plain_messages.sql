-- Triggers with messages in plain words, and one with another name. `schema/` has them as they are now.

DROP TRIGGER cuts_only_grow;
DROP TRIGGER pruned_are_gone;
DROP TRIGGER skipped_are_behind_the_end;
DROP TRIGGER skipped_are_not_changed;
DROP TRIGGER skipped_are_not_deleted;
DROP TRIGGER snapshots_are_named_by_facts;
