-- The identity of the store: one row.

CREATE TABLE tally.store (
    one integer PRIMARY KEY CHECK (one = 1),
    store_id uuid NOT NULL,
    profile text NOT NULL,
    created_at bigint NOT NULL
);

CREATE TRIGGER store_is_not_changed BEFORE UPDATE OR DELETE ON tally.store
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

ALTER TABLE tally.store ENABLE ALWAYS TRIGGER store_is_not_changed;

GRANT SELECT ON tally.store TO tally_app, tally_maintenance, tally_reader;
