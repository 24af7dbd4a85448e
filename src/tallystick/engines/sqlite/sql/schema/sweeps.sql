-- Up to which erasure the file was rewritten: no unused part of a page has a copy of those payloads.
CREATE TABLE IF NOT EXISTS sweeps (
    fact_position INTEGER PRIMARY KEY,
    swept_at INTEGER NOT NULL
) STRICT;
