-- What was appended stays as it is. These triggers stand for every role, also when replication is being applied;
-- `tally_maintenance` alone may empty a payload or delete, in functions that record what they did.

CREATE FUNCTION tally.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'tally.% only grows: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'TL403';
END
$$;

CREATE FUNCTION tally.judge_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    emptied tally.events;
BEGIN
    IF current_user = 'tally_maintenance' AND TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    IF current_user = 'tally_maintenance' AND TG_OP = 'UPDATE' THEN
        emptied := OLD;
        emptied.payload := NULL;
        IF NEW IS NOT DISTINCT FROM emptied THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'events are immutable: % is refused', TG_OP USING ERRCODE = 'TL403';
END
$$;

CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE ON tally.events
FOR EACH ROW EXECUTE FUNCTION tally.judge_change();

CREATE TRIGGER events_are_not_truncated BEFORE TRUNCATE ON tally.events
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER streams_only_grow BEFORE UPDATE ON tally.streams
FOR EACH ROW WHEN (
    NEW.stream <> OLD.stream OR NEW.seq <= OLD.seq OR (OLD.org IS NOT NULL AND NEW.org IS DISTINCT FROM OLD.org)
) EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER streams_are_not_deleted BEFORE DELETE ON tally.streams
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER streams_are_not_truncated BEFORE TRUNCATE ON tally.streams
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER store_is_not_changed BEFORE UPDATE OR DELETE ON tally.store
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

-- Before any position is drawn, by whatever statement: what a reader holds on to. See 005_safe_head.sql.
CREATE FUNCTION tally.announce_append() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock_shared(1952541804, 1);
    RETURN NULL;
END
$$;

CREATE TRIGGER appends_are_announced BEFORE INSERT ON tally.events
FOR EACH STATEMENT EXECUTE FUNCTION tally.announce_append();

ALTER TABLE tally.events ENABLE ALWAYS TRIGGER events_are_not_changed;
ALTER TABLE tally.events ENABLE ALWAYS TRIGGER events_are_not_truncated;
ALTER TABLE tally.events ENABLE ALWAYS TRIGGER appends_are_announced;
ALTER TABLE tally.streams ENABLE ALWAYS TRIGGER streams_only_grow;
ALTER TABLE tally.streams ENABLE ALWAYS TRIGGER streams_are_not_deleted;
ALTER TABLE tally.streams ENABLE ALWAYS TRIGGER streams_are_not_truncated;
ALTER TABLE tally.store ENABLE ALWAYS TRIGGER store_is_not_changed;
