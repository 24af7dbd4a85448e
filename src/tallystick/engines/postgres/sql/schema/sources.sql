-- The last sequence of each source, within each org that its events name; '' is for events that name none.

CREATE TABLE tally.org_sources (
    org text COLLATE "C",
    source text COLLATE "C",
    seq bigint NOT NULL,
    PRIMARY KEY (org, source)
);

-- Numbers of events that an older version pruned. Nobody can say which org they belonged to, so they count for each.
CREATE TABLE tally.sources (
    source text COLLATE "C" PRIMARY KEY,
    seq bigint NOT NULL
);
