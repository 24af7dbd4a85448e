-- Commands that took effect: recorded with their events, so that each runs once.

CREATE TABLE tally.commands (
    org text COLLATE "C",
    actor text COLLATE "C",
    endpoint text COLLATE "C",
    key text COLLATE "C",
    number bigint GENERATED ALWAYS AS IDENTITY,
    request_hash bytea NOT NULL,
    recorded bigint NOT NULL,
    response bytea NOT NULL,
    PRIMARY KEY (org, actor, endpoint, key)
);

CREATE UNIQUE INDEX commands_by_number ON tally.commands (number);
CREATE INDEX commands_by_time ON tally.commands (recorded);

-- What a command appended: the seqs from `first_seq` to `last_seq` of each stream.
CREATE TABLE tally.command_ranges (
    command bigint NOT NULL,
    part integer NOT NULL,
    stream text COLLATE "C" NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL CHECK (last_seq >= first_seq),
    org text COLLATE "C" NOT NULL,
    PRIMARY KEY (command, part)
);

CREATE INDEX command_ranges_by_stream ON tally.command_ranges (stream, last_seq);

-- A response may go, because it may repeat a payload that was erased; that the command took effect stays known.
CREATE TRIGGER commands_are_not_changed BEFORE UPDATE ON tally.commands
FOR EACH ROW WHEN (
    NEW.response <> ''::bytea
    OR (NEW.number, NEW.org, NEW.actor, NEW.endpoint, NEW.key, NEW.request_hash, NEW.recorded)
        IS DISTINCT FROM (OLD.number, OLD.org, OLD.actor, OLD.endpoint, OLD.key, OLD.request_hash, OLD.recorded)
) EXECUTE FUNCTION tally.refuse_change();

CREATE TRIGGER commands_are_not_truncated BEFORE TRUNCATE ON tally.commands
FOR EACH STATEMENT EXECUTE FUNCTION tally.refuse_change();

ALTER TABLE tally.commands ENABLE ALWAYS TRIGGER commands_are_not_changed;
ALTER TABLE tally.commands ENABLE ALWAYS TRIGGER commands_are_not_truncated;

-- As in 004, but for an id that was pruned, which is taken too.
-- One event in one round trip. `status`: done; conflict (seq says where the stream is); org (org says whose it is);
-- foreign (the session's org may not know); judge (the id or the lease needs a closer look, nothing was written).
CREATE OR REPLACE FUNCTION tally.append_event(
    to_stream text, expected bigint, new_type text, new_version integer, new_id uuid, new_time bigint,
    new_payload text, new_meta text, new_signature bytea, new_recorded bigint, id_given boolean,
    lease_handle text, lease_number bigint,
    OUT status text, OUT seq bigint, OUT "position" bigint, OUT link bytea, OUT org text
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    scope text := nullif(current_setting('tally.org', true), '');
    head tally.streams;
    meta jsonb;
    own_org text;
    new_checksum bytea := sha256(convert_to(new_payload, 'UTF8'));
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('synchronous_commit') = 'off' THEN
        PERFORM tally.require_safe(); -- asked twice, because the call costs more than the question
    END IF;
    PERFORM pg_advisory_xact_lock_shared(1952541804, 1);
    PERFORM pg_advisory_xact_lock(1952541811, hashtext(to_stream));
    SELECT * INTO head FROM tally.streams AS known WHERE known.stream = to_stream;
    IF new_meta <> '{}' THEN
        meta := new_meta::jsonb;
        own_org := meta ->> 'org';
    END IF;
    IF scope IS NOT NULL AND (own_org IS DISTINCT FROM scope OR (head.seq > 0 AND head.org IS DISTINCT FROM scope)) THEN
        status := 'foreign';
        RETURN;
    END IF;
    IF id_given THEN -- not one condition with the next: what holds a query is never quick, even where it is not needed
        IF EXISTS (SELECT FROM tally.events AS stored WHERE stored.id = new_id) THEN
            status := 'judge';
            RETURN;
        END IF;
        IF EXISTS (SELECT FROM tally.pruned AS gone WHERE gone.id = new_id) THEN
            status := 'judge';
            RETURN;
        END IF;
    END IF;
    seq := coalesce(head.seq, 0);
    IF expected >= 0 AND expected <> seq THEN
        status := 'conflict';
        RETURN;
    END IF;
    org := coalesce(head.org, own_org);
    IF own_org <> org THEN
        status := 'org';
        RETURN;
    END IF;
    IF lease_handle IS NOT NULL THEN
        IF NOT EXISTS (
            SELECT FROM tally.leases AS held
            WHERE held.stream = to_stream AND held.handle = lease_handle AND held.number = lease_number
        ) THEN
            status := 'judge';
            RETURN;
        END IF;
    END IF;
    seq := seq + 1;
    position := tally.draw(1);
    link := tally.link(
        coalesce(head.link, decode(repeat('00', 32), 'hex')),
        to_stream, seq, new_type, new_version, new_id, new_time, new_meta, new_checksum
    );
    INSERT INTO tally.events VALUES (
        position, to_stream, seq, new_type, new_version, new_id, new_time, new_payload, new_meta, new_checksum, link,
        new_signature, new_recorded, own_org, meta ->> 'app', meta ->> 'env'
    );
    IF head.seq IS NULL THEN
        INSERT INTO tally.streams VALUES (to_stream, seq, link, org);
    ELSE
        UPDATE tally.streams AS known SET seq = append_event.seq, link = append_event.link, org = append_event.org
        WHERE known.stream = to_stream;
    END IF;
    status := 'done';
END
$$;

-- One event and the record of the command that appended it, in one round trip. `status` may also be repeated: the
-- command took effect already. A command is locked like a source of events, under a name that no source can have.
CREATE FUNCTION tally.append_command(
    to_stream text, expected bigint, new_type text, new_version integer, new_id uuid, new_time bigint,
    new_payload text, new_meta text, new_signature bytea, new_recorded bigint, id_given boolean,
    lease_handle text, lease_number bigint,
    of_org text, of_actor text, of_endpoint text, of_key text, request_hash bytea, response bytea, run_at bigint,
    OUT status text, OUT seq bigint, OUT "position" bigint, OUT link bytea, OUT org text
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    new_number bigint;
BEGIN
    IF tally.is_foreign(of_org) THEN
        status := 'foreign';
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(1952541804, 1);
    PERFORM pg_advisory_xact_lock(1952541811, hashtext(to_stream));
    PERFORM pg_advisory_xact_lock(1952541812, hashtext(concat_ws(E'\n', '', of_org, of_actor, of_endpoint, of_key)));
    IF EXISTS (
        SELECT FROM tally.commands AS known
        WHERE known.org = of_org AND known.actor = of_actor AND known.endpoint = of_endpoint AND known.key = of_key
    ) THEN
        status := 'repeated';
        RETURN;
    END IF;
    SELECT done.status, done.seq, done.position, done.link, done.org INTO status, seq, position, link, org
    FROM tally.append_event(
        to_stream, expected, new_type, new_version, new_id, new_time, new_payload, new_meta, new_signature,
        new_recorded, id_given, lease_handle, lease_number
    ) AS done;
    IF status = 'done' THEN
        INSERT INTO tally.commands AS known (org, actor, endpoint, key, request_hash, recorded, response)
        VALUES (of_org, of_actor, of_endpoint, of_key, request_hash, run_at, response)
        RETURNING known.number INTO new_number;
        INSERT INTO tally.command_ranges VALUES (new_number, 0, to_stream, seq, seq, of_org);
    END IF;
END
$$;

-- Commands that were judged under the locks of begin_append, in the transaction of their events. `range_of` counts the
-- commands from 1.
CREATE FUNCTION tally.write_commands(
    orgs text[], actors text[], endpoints text[], keys text[], hashes bytea[], responses bytea[], times bigint[],
    range_of integer[], range_part integer[], range_stream text[], range_first bigint[], range_last bigint[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF EXISTS (SELECT FROM unnest(orgs) AS named(org) WHERE tally.is_foreign(named.org)) THEN
        RAISE EXCEPTION 'the command is refused: it is of another org' USING ERRCODE = 'TL409';
    END IF;
    WITH given AS (
        SELECT *
        FROM unnest(orgs, actors, endpoints, keys, hashes, responses, times) WITH ORDINALITY
            AS each(org, actor, endpoint, key, request_hash, response, recorded, n)
    ), written AS (
        INSERT INTO tally.commands (org, actor, endpoint, key, request_hash, response, recorded)
        SELECT org, actor, endpoint, key, request_hash, response, recorded FROM given ORDER BY n
        RETURNING org, actor, endpoint, key, number
    )
    INSERT INTO tally.command_ranges (command, part, stream, first_seq, last_seq, org)
    SELECT written.number, each.part, each.stream, each.first_seq, each.last_seq, written.org
    FROM unnest(range_of, range_part, range_stream, range_first, range_last)
        AS each(n, part, stream, first_seq, last_seq)
    JOIN given ON given.n = each.n
    JOIN written ON (written.org, written.actor, written.endpoint, written.key)
        = (given.org, given.actor, given.endpoint, given.key);
END
$$;

CREATE FUNCTION tally.forget(numbers bigint[]) RETURNS bigint
LANGUAGE sql AS $$
    WITH ranges AS (DELETE FROM tally.command_ranges WHERE command = ANY (numbers)),
    gone AS (DELETE FROM tally.commands WHERE number = ANY (numbers) RETURNING number)
    SELECT count(*) FROM gone
$$;

CREATE FUNCTION tally.erase_responses(orgs text[], actors text[], endpoints text[], keys text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE tally.commands AS known SET response = ''::bytea
    FROM unnest(orgs, actors, endpoints, keys) AS asked(org, actor, endpoint, key)
    WHERE (known.org, known.actor, known.endpoint, known.key) = (asked.org, asked.actor, asked.endpoint, asked.key)
        AND NOT tally.is_foreign(known.org)
$$;

CREATE FUNCTION tally.forget_commands_before(moment bigint, commands_max bigint) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT tally.forget(array_agg(old.number))
    FROM (
        SELECT number FROM tally.commands
        WHERE recorded < moment AND NOT tally.is_foreign(org)
        ORDER BY recorded LIMIT commands_max
    ) AS old
$$;

DO $$
DECLARE
    name text;
    scope text := $scope$(SELECT nullif(current_setting('tally.org', true), ''))$scope$;
BEGIN
    FOREACH name IN ARRAY ARRAY['commands', 'command_ranges'] LOOP
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
        EXECUTE format(
            'CREATE POLICY tenant_sees_its_org ON tally.%I FOR SELECT TO tally_reader USING (org = %s)', name, scope
        );
    END LOOP;
    IF current_setting('server_version_num')::integer >= 170000 THEN
        EXECUTE 'GRANT MAINTAIN ON tally.commands, tally.command_ranges TO tally_maintenance';
    END IF;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tally FROM PUBLIC;
GRANT SELECT ON tally.commands, tally.command_ranges TO tally_app, tally_maintenance, tally_reader;
GRANT EXECUTE ON FUNCTION tally.append_command, tally.write_commands TO tally_app, tally_maintenance;
GRANT EXECUTE ON FUNCTION tally.erase_responses, tally.forget_commands_before TO tally_maintenance;
