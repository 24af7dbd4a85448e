-- The log itself. The columns up to `signature` are the envelope in its order; payload and meta are canonical JSON,
-- stored as the text they are. The rest is outside of every hash: `recorded` is the clock of the appender's host,
-- `org`, `app` and `env` repeat what meta says.

CREATE TABLE tally.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE tally.store (
    one integer PRIMARY KEY CHECK (one = 1),
    store_id uuid NOT NULL,
    profile text NOT NULL,
    created_at bigint NOT NULL
);

-- CACHE 1: a session that kept numbers for later would give them out behind the backs of the readers.
CREATE SEQUENCE tally.positions AS bigint CACHE 1 NO CYCLE;

CREATE TABLE tally.events (
    position bigint PRIMARY KEY,
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL CHECK (seq > 0),
    type text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    id uuid NOT NULL,
    time bigint NOT NULL,
    payload text COLLATE "C",
    meta text COLLATE "C" NOT NULL,
    checksum bytea NOT NULL CHECK (octet_length(checksum) = 32),
    link bytea NOT NULL CHECK (octet_length(link) = 32),
    signature bytea,
    recorded bigint NOT NULL,
    org text COLLATE "C",
    app text COLLATE "C",
    env text COLLATE "C"
);

ALTER SEQUENCE tally.positions OWNED BY tally.events.position;

CREATE UNIQUE INDEX events_by_stream ON tally.events (stream, seq);
CREATE UNIQUE INDEX events_by_id ON tally.events (id);
CREATE INDEX events_by_type ON tally.events (type, position);
CREATE INDEX events_by_org ON tally.events (org, position) WHERE org IS NOT NULL;

CREATE TABLE tally.streams (
    stream text COLLATE "C" PRIMARY KEY,
    seq bigint NOT NULL CHECK (seq > 0),
    link bytea NOT NULL CHECK (octet_length(link) = 32),
    org text COLLATE "C"
) WITH (fillfactor = 80);

CREATE TABLE tally.sources (
    source text COLLATE "C" PRIMARY KEY,
    seq bigint NOT NULL
);

-- The latest lease of a run. A released one has no host; its number stays, so that the next one fences it off.
CREATE TABLE tally.leases (
    stream text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL CHECK (number > 0),
    host text,
    pid bigint,
    started bigint,
    handle text
);

-- Kinds of streams that no tenant sees, whatever org their events name.
CREATE TABLE tally.infrastructure (
    kind text COLLATE "C" PRIMARY KEY
);

CREATE TABLE tally.checkpoints (
    name text COLLATE "C" PRIMARY KEY,
    store_id uuid NOT NULL,
    position bigint NOT NULL,
    link_position bigint NOT NULL,
    link bytea NOT NULL
);

-- How far the log is proven to be final, and the proof that is under way: once none of `holders` runs any more,
-- everything up to `pending` is final. A standby and a reader that was just started begin here.
CREATE TABLE tally.proven (
    one integer PRIMARY KEY CHECK (one = 1),
    position bigint NOT NULL,
    pending bigint,
    holders text[]
) WITH (fillfactor = 10);

INSERT INTO tally.proven (one, position) VALUES (1, 0);
