-- What may happen to a log besides appending: prefixes are cut, payloads erased, snapshots kept and dropped.
-- The triggers let nothing be cut or erased but what a control fact names that the same transaction appended. The
-- functions that cut, erase and drop are for `tally_maintenance` alone, and nobody may do it without them.

-- One row a prune, and none is ever changed: what is gone of a stream is the row with its highest `through`.
CREATE TABLE tally.cuts (
    stream text COLLATE "C" NOT NULL CHECK (stream NOT LIKE 'tally.%'),
    through bigint NOT NULL CHECK (through > 0),
    link bytea NOT NULL CHECK (octet_length(link) = 32),
    first_position bigint NOT NULL CHECK (first_position > 0),
    last_position bigint NOT NULL CHECK (last_position >= first_position),
    count bigint NOT NULL CHECK (count = through),
    org text COLLATE "C",
    fact_position bigint NOT NULL,
    PRIMARY KEY (stream, through)
);

CREATE INDEX cuts_by_position ON tally.cuts (last_position);

-- Every event that was pruned, so that a retry of it is recognised for ever. Written by the trigger that sees it go.
CREATE TABLE tally.pruned (
    position bigint PRIMARY KEY,
    id uuid NOT NULL,
    org text COLLATE "C"
);

CREATE UNIQUE INDEX pruned_by_id ON tally.pruned (id);

CREATE TABLE tally.erasures (
    position bigint PRIMARY KEY,
    stream text COLLATE "C" NOT NULL CHECK (stream NOT LIKE 'tally.%'),
    seq bigint NOT NULL,
    checksum bytea NOT NULL CHECK (octet_length(checksum) = 32),
    org text COLLATE "C",
    fact_position bigint NOT NULL
);

-- A snapshot is known by the id of its control fact; what is said of it here is also said there. An empty `stream` is
-- the whole store. `body` is the state, or for kind `diff` the patch that leads to it.
CREATE TABLE tally.snapshots (
    id uuid PRIMARY KEY,
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    position bigint NOT NULL,
    link bytea NOT NULL,
    reducer text COLLATE "C" NOT NULL,
    reducer_version integer NOT NULL,
    upcasters bytea NOT NULL,
    kind text NOT NULL CHECK (kind IN ('full', 'diff')),
    base uuid CHECK ((base IS NULL) = (kind = 'full')),
    state_hash bytea NOT NULL CHECK (octet_length(state_hash) = 32),
    made bigint NOT NULL,
    org text COLLATE "C",
    body bytea NOT NULL
);

-- The control fact at a position, if this very transaction appended it, and not inside of a savepoint.
CREATE FUNCTION tally.fact_at(at bigint, of_type text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT payload::jsonb
    FROM tally.events
    WHERE position = at AND type = of_type AND stream LIKE 'tally.%' AND xmin = pg_current_xact_id()::xid
$$;

-- Whether the session acts for another org than this.
CREATE FUNCTION tally.is_foreign(org text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(pg_catalog.current_setting('tally.org', true), '') <> coalesce(org, ''), false)
$$;

CREATE FUNCTION tally.judge_cut() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fact jsonb := tally.fact_at(NEW.fact_position, 'tally.pruned');
    before tally.cuts;
    reason text;
BEGIN
    SELECT * INTO before FROM tally.cuts WHERE stream = NEW.stream ORDER BY through DESC LIMIT 1;
    IF fact IS NULL OR (
        fact ->> 'stream', fact ->> 'through', fact ->> 'link', fact ->> 'first_position', fact ->> 'last_position',
        fact ->> 'count', fact ->> 'org'
    ) IS DISTINCT FROM (
        NEW.stream, NEW.through::text, encode(NEW.link, 'hex'), NEW.first_position::text, NEW.last_position::text,
        NEW.count::text, NEW.org
    ) THEN
        reason := 'no control fact of the same transaction names it';
    ELSIF NEW.through <= before.through OR NEW.first_position <> before.first_position THEN
        reason := 'it does not lie behind the cut before it';
    ELSIF before.stream IS NULL AND NOT EXISTS (
        SELECT FROM tally.events WHERE stream = NEW.stream AND seq = 1 AND position = NEW.first_position
    ) THEN
        reason := 'it does not begin at the first event';
    ELSIF NOT EXISTS (
        SELECT FROM tally.events
        WHERE stream = NEW.stream AND seq = NEW.through AND link = NEW.link AND position = NEW.last_position
    ) THEN
        reason := 'there is no such event that it goes up to';
    ELSIF tally.is_foreign(NEW.org)
        OR NEW.org IS DISTINCT FROM (SELECT org FROM tally.streams WHERE stream = NEW.stream) THEN
        reason := 'the stream is of another org';
    END IF;
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION 'the cut of % at % is refused: %', NEW.stream, NEW.through, reason USING ERRCODE = 'TL403';
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION tally.judge_erasure() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fact jsonb := tally.fact_at(NEW.fact_position, 'tally.erased');
    reason text;
BEGIN
    IF fact IS NULL OR (fact ->> 'stream', fact ->> 'seq', fact ->> 'position', fact ->> 'checksum')
        IS DISTINCT FROM (NEW.stream, NEW.seq::text, NEW.position::text, encode(NEW.checksum, 'hex')) THEN
        reason := 'no control fact of the same transaction names it';
    ELSIF NOT EXISTS (
        SELECT FROM tally.events
        WHERE position = NEW.position AND stream = NEW.stream AND seq = NEW.seq AND checksum = NEW.checksum
            AND payload IS NOT NULL
    ) THEN
        reason := 'there is no such payload';
    ELSIF tally.is_foreign(NEW.org)
        OR NEW.org IS DISTINCT FROM (SELECT org FROM tally.streams WHERE stream = NEW.stream) THEN
        reason := 'the stream is of another org';
    END IF;
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION 'the erasure of % of % is refused: %', NEW.seq, NEW.stream, reason USING ERRCODE = 'TL403';
    END IF;
    RETURN NEW;
END
$$;

-- A snapshot has its fact from the same transaction, or from the one that a retry repeats.
CREATE FUNCTION tally.judge_snapshot() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fact jsonb;
BEGIN
    SELECT payload::jsonb INTO fact
    FROM tally.events
    WHERE id = NEW.id AND type = 'tally.snapshotted' AND stream LIKE 'tally.%';
    IF fact IS NULL OR (fact ->> 'stream', fact ->> 'body_hash')
        IS DISTINCT FROM (NEW.stream, encode(sha256(NEW.body), 'hex')) THEN
        RAISE EXCEPTION 'the snapshot % is refused: no control fact tells of it', NEW.id USING ERRCODE = 'TL403';
    END IF;
    IF tally.is_foreign(NEW.org) THEN
        RAISE EXCEPTION 'the snapshot % is refused: it is of another org', NEW.id USING ERRCODE = 'TL403';
    END IF;
    RETURN NEW;
END
$$;

-- An event goes only where a cut covers it, and its payload only where an erasure names it.
CREATE OR REPLACE FUNCTION tally.judge_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    emptied tally.events;
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF EXISTS (SELECT FROM tally.cuts WHERE stream = OLD.stream AND through >= OLD.seq) THEN
            RETURN OLD;
        END IF;
    ELSIF OLD.payload IS NOT NULL THEN
        emptied := OLD;
        emptied.payload := NULL;
        IF NEW IS NOT DISTINCT FROM emptied
            AND EXISTS (SELECT FROM tally.erasures WHERE position = OLD.position AND checksum = OLD.checksum) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'events are immutable: % is refused', TG_OP USING ERRCODE = 'TL403';
END
$$;

CREATE FUNCTION tally.note_pruned() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tally.pruned (position, id, org) SELECT position, id, org FROM gone;
    RETURN NULL;
END
$$;

CREATE TRIGGER pruned_events_are_noted AFTER DELETE ON tally.events
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tally.note_pruned();

CREATE TRIGGER cuts_are_named_by_facts BEFORE INSERT ON tally.cuts
FOR EACH ROW EXECUTE FUNCTION tally.judge_cut();

CREATE TRIGGER erasures_are_named_by_facts BEFORE INSERT ON tally.erasures
FOR EACH ROW EXECUTE FUNCTION tally.judge_erasure();

CREATE TRIGGER snapshots_are_named_by_facts BEFORE INSERT ON tally.snapshots
FOR EACH ROW EXECUTE FUNCTION tally.judge_snapshot();

CREATE TRIGGER cuts_are_not_changed BEFORE UPDATE OR DELETE ON tally.cuts
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER cuts_are_not_truncated BEFORE TRUNCATE ON tally.cuts
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER pruned_are_not_changed BEFORE UPDATE OR DELETE ON tally.pruned
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER pruned_are_not_truncated BEFORE TRUNCATE ON tally.pruned
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER erasures_are_not_changed BEFORE UPDATE OR DELETE ON tally.erasures
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER erasures_are_not_truncated BEFORE TRUNCATE ON tally.erasures
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER snapshots_are_not_changed BEFORE UPDATE ON tally.snapshots
FOR EACH ROW EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER snapshots_are_not_truncated BEFORE TRUNCATE ON tally.snapshots
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

ALTER TABLE tally.events ENABLE ALWAYS TRIGGER pruned_events_are_noted;
ALTER TABLE tally.cuts ENABLE ALWAYS TRIGGER cuts_are_named_by_facts;
ALTER TABLE tally.cuts ENABLE ALWAYS TRIGGER cuts_are_not_changed;
ALTER TABLE tally.cuts ENABLE ALWAYS TRIGGER cuts_are_not_truncated;
ALTER TABLE tally.pruned ENABLE ALWAYS TRIGGER pruned_are_not_changed;
ALTER TABLE tally.pruned ENABLE ALWAYS TRIGGER pruned_are_not_truncated;
ALTER TABLE tally.erasures ENABLE ALWAYS TRIGGER erasures_are_named_by_facts;
ALTER TABLE tally.erasures ENABLE ALWAYS TRIGGER erasures_are_not_changed;
ALTER TABLE tally.erasures ENABLE ALWAYS TRIGGER erasures_are_not_truncated;
ALTER TABLE tally.snapshots ENABLE ALWAYS TRIGGER snapshots_are_named_by_facts;
ALTER TABLE tally.snapshots ENABLE ALWAYS TRIGGER snapshots_are_not_changed;
ALTER TABLE tally.snapshots ENABLE ALWAYS TRIGGER snapshots_are_not_truncated;

-- Prune a stream. `fact` is the id of the control fact, here and below.
CREATE FUNCTION tally.prune(
    of_stream text, through bigint, link bytea, first_position bigint, last_position bigint, count bigint, org text,
    fact uuid
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    INSERT INTO tally.cuts VALUES (
        of_stream, through, link, first_position, last_position, count, org,
        coalesce((SELECT named.position FROM tally.events AS named WHERE named.id = fact), 0)
    );
    DELETE FROM tally.events AS gone WHERE gone.stream = of_stream AND gone.seq <= through;
END
$$;

CREATE FUNCTION tally.erase("position" bigint, of_stream text, seq bigint, checksum bytea, fact uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    INSERT INTO tally.erasures VALUES (
        position, of_stream, seq, checksum, (SELECT head.org FROM tally.streams AS head WHERE head.stream = of_stream),
        coalesce((SELECT named.position FROM tally.events AS named WHERE named.id = fact), 0)
    );
    UPDATE tally.events AS erased SET payload = NULL WHERE erased.position = erase.position;
END
$$;

-- A service may keep snapshots; a retry finds the one that it made.
CREATE FUNCTION tally.keep_snapshot(
    new_id uuid, of_stream text, seq bigint, "position" bigint, link bytea, reducer text, reducer_version integer,
    upcasters bytea, kind text, base uuid, state_hash bytea, made bigint, body bytea
) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO tally.snapshots VALUES (
        new_id, of_stream, seq, position, link, reducer, reducer_version, upcasters, kind, base, state_hash, made,
        (SELECT org FROM tally.streams WHERE stream = of_stream), body
    )
    ON CONFLICT (id) DO NOTHING
$$;

CREATE FUNCTION tally.drop_snapshots(dropped uuid[], facts uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unnamed uuid;
BEGIN
    SELECT gone.id INTO unnamed
    FROM unnest(dropped, facts) AS asked(id, fact)
    JOIN tally.snapshots AS gone ON gone.id = asked.id
    LEFT JOIN tally.events AS named ON named.id = asked.fact
    WHERE tally.is_foreign(gone.org)
        OR NOT coalesce(
            tally.fact_at(named.position, 'tally.snapshot.dropped') -> 'snapshots' ? encode(uuid_send(gone.id), 'hex'),
            false
        )
    LIMIT 1;
    IF unnamed IS NOT NULL THEN
        RAISE EXCEPTION 'dropping the snapshot % is refused: no control fact of the same transaction names it', unnamed
            USING ERRCODE = 'TL403';
    END IF;
    DELETE FROM tally.snapshots WHERE id = ANY (dropped);
END
$$;

-- What a retry is held against, whoever's it was.
CREATE FUNCTION tally.pruned_with(ids uuid[]) RETURNS TABLE (id bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT uuid_send(gone.id) FROM tally.pruned AS gone WHERE gone.id = ANY (ids) AND EXISTS (SELECT FROM tally.pruned)
$$;

DO $$
DECLARE
    name text;
    scope text := $scope$(SELECT nullif(current_setting('tally.org', true), ''))$scope$;
BEGIN
    FOREACH name IN ARRAY ARRAY['cuts', 'pruned', 'erasures', 'snapshots'] LOOP
        EXECUTE format('ALTER TABLE tally.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE tally.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY owner_sees_all ON tally.%I TO tally_owner, tally_maintenance USING (true) WITH CHECK (true)',
            name
        );
        EXECUTE format(
            'CREATE POLICY service_sees_its_scope ON tally.%I FOR SELECT TO tally_app USING (%s IS NULL OR org = %s)',
            name, scope, scope
        );
        -- A tenant does not append, so it need not know which ids were pruned.
        IF name <> 'pruned' THEN
            EXECUTE format(
                'CREATE POLICY tenant_sees_its_org ON tally.%I FOR SELECT TO tally_reader USING (
                    org = %s AND stream NOT LIKE ''tally.%%''
                    AND split_part(stream, ''/'', 1) NOT IN (SELECT kind FROM tally.infrastructure)
                )',
                name, scope
            );
        END IF;
    END LOOP;
    -- The right to vacuum can be given away since version 17; before, it is the owner's alone.
    IF current_setting('server_version_num')::integer >= 170000 THEN
        EXECUTE 'GRANT MAINTAIN ON tally.events, tally.snapshots TO tally_maintenance';
    END IF;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tally FROM PUBLIC;
REVOKE DELETE, UPDATE (payload) ON tally.events FROM tally_maintenance;
GRANT SELECT ON tally.cuts, tally.pruned, tally.erasures, tally.snapshots TO tally_app, tally_maintenance, tally_reader;
GRANT EXECUTE ON FUNCTION tally.keep_snapshot, tally.pruned_with, tally.is_foreign TO tally_app, tally_maintenance;
GRANT EXECUTE ON FUNCTION tally.prune, tally.erase, tally.drop_snapshots TO tally_maintenance;
