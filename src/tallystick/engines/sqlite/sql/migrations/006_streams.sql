-- Who the store is, where its streams and sources end, who may write to a run, which handles are open; and indexes.
-- opening_profile() and opening_time() are what the store is being opened with.

CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store_id BLOB NOT NULL CHECK (length(store_id) = 16),
    profile TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

INSERT INTO store (one, store_id, profile, created_at) VALUES (1, randomblob(16), opening_profile(), opening_time());

CREATE TRIGGER store_is_not_changed BEFORE UPDATE ON store
BEGIN
    SELECT RAISE(ABORT, 'the identity of a store is immutable');
END;

CREATE TRIGGER store_is_not_replaced BEFORE INSERT ON store
WHEN EXISTS (SELECT 1 FROM store)
BEGIN
    SELECT RAISE(ABORT, 'the identity of a store is immutable');
END;

CREATE TRIGGER store_is_not_deleted BEFORE DELETE ON store
BEGIN
    SELECT RAISE(ABORT, 'the identity of a store is immutable');
END;

CREATE TABLE streams (
    stream TEXT PRIMARY KEY,
    seq INTEGER NOT NULL CHECK (seq > 0),
    link BLOB NOT NULL CHECK (length(link) = 32),
    org TEXT
) STRICT, WITHOUT ROWID;

INSERT INTO streams (stream, seq, link, org)
SELECT last.stream, last.seq, last.link, (SELECT max(org) FROM events WHERE stream = last.stream)
FROM events AS last
JOIN (SELECT stream, max(seq) AS seq FROM events GROUP BY stream) AS heads
    ON heads.stream = last.stream AND heads.seq = last.seq;

CREATE TRIGGER streams_only_grow BEFORE UPDATE ON streams
WHEN NEW.stream <> OLD.stream OR NEW.seq <= OLD.seq OR (OLD.org IS NOT NULL AND NEW.org IS NOT OLD.org)
BEGIN
    SELECT RAISE(ABORT, 'a stream only grows, and keeps its org');
END;

CREATE TRIGGER streams_are_not_replaced BEFORE INSERT ON streams
WHEN EXISTS (SELECT 1 FROM streams WHERE stream = NEW.stream AND seq >= NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'a stream only grows, and keeps its org');
END;

CREATE TRIGGER streams_are_not_deleted BEFORE DELETE ON streams
BEGIN
    SELECT RAISE(ABORT, 'a stream is never forgotten');
END;

CREATE TABLE sources (
    source TEXT PRIMARY KEY,
    seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO sources (source, seq)
SELECT json_extract(CAST(meta AS TEXT), '$.source'), max(json_extract(CAST(meta AS TEXT), '$.source_seq'))
FROM events
WHERE length(meta) > 2 AND json_extract(CAST(meta AS TEXT), '$.source_seq') IS NOT NULL
    AND json_extract(CAST(meta AS TEXT), '$.source') IS NOT NULL
GROUP BY 1;

CREATE TRIGGER sources_only_grow BEFORE UPDATE ON sources
WHEN NEW.source <> OLD.source OR NEW.seq <= OLD.seq
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER sources_are_not_replaced BEFORE INSERT ON sources
WHEN EXISTS (SELECT 1 FROM sources WHERE source = NEW.source AND seq >= NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER sources_are_not_deleted BEFORE DELETE ON sources
BEGIN
    SELECT RAISE(ABORT, 'a source is never forgotten');
END;

-- The latest lease of a run. A released one has no host; its number stays, so that the next one fences it off.
CREATE TABLE leases (
    stream TEXT PRIMARY KEY,
    number INTEGER NOT NULL CHECK (number > 0),
    host TEXT,
    pid INTEGER,
    started INTEGER,
    handle TEXT
) STRICT, WITHOUT ROWID;

CREATE TRIGGER leases_only_grow BEFORE UPDATE ON leases
WHEN NEW.stream <> OLD.stream OR NEW.number < OLD.number
BEGIN
    SELECT RAISE(ABORT, 'the number of a lease only grows');
END;

CREATE TRIGGER leases_are_not_replaced BEFORE INSERT ON leases
WHEN EXISTS (SELECT 1 FROM leases WHERE stream = NEW.stream AND number > NEW.number)
BEGIN
    SELECT RAISE(ABORT, 'the number of a lease only grows');
END;

CREATE TRIGGER leases_are_not_deleted BEFORE DELETE ON leases
BEGIN
    SELECT RAISE(ABORT, 'a lease is never forgotten');
END;

-- Handles that are open for writing. One whose process is gone did not close.
CREATE TABLE writers (
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    handle TEXT PRIMARY KEY,
    opened_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Every index ends with the rowid, which is `position`: these are (type, position) and (org, position).
CREATE INDEX events_by_type ON events (type);
CREATE INDEX events_by_org ON events (org) WHERE org IS NOT NULL;
