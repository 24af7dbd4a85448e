-- A source counts once for each org that its events name; '' stands for events that name none. What is left in `sources`
-- are numbers of events that were pruned before this step: nobody can say whose they were, so they count for every org.

CREATE TABLE org_sources (
    org TEXT NOT NULL,
    source TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (org, source)
) STRICT, WITHOUT ROWID;

INSERT INTO org_sources (org, source, seq)
SELECT ifnull(json_extract(CAST(meta AS TEXT), '$.org'), ''), json_extract(CAST(meta AS TEXT), '$.source'),
    max(json_extract(CAST(meta AS TEXT), '$.source_seq'))
FROM events
WHERE EXISTS (SELECT 1 FROM sources) AND CAST(meta AS TEXT) LIKE '%"source_seq":%'
    AND json_extract(CAST(meta AS TEXT), '$.source_seq') IS NOT NULL
    AND json_extract(CAST(meta AS TEXT), '$.source') IS NOT NULL
GROUP BY 1, 2;

DROP TRIGGER sources_are_not_deleted;

DELETE FROM sources
WHERE NOT EXISTS (SELECT 1 FROM cuts) -- a pruned event of another org may have had any number up to this one
    AND seq <= (SELECT max(seq) FROM org_sources WHERE org_sources.source = sources.source);

CREATE TRIGGER sources_are_not_deleted BEFORE DELETE ON sources
BEGIN
    SELECT RAISE(ABORT, 'a source is never forgotten');
END;

CREATE TRIGGER org_sources_only_grow BEFORE UPDATE ON org_sources
WHEN NEW.org <> OLD.org OR NEW.source <> OLD.source OR NEW.seq <= OLD.seq
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER org_sources_are_not_replaced BEFORE INSERT ON org_sources
WHEN EXISTS (SELECT 1 FROM org_sources WHERE org = NEW.org AND source = NEW.source AND seq >= NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'the sequence of a source only grows');
END;

CREATE TRIGGER org_sources_are_not_deleted BEFORE DELETE ON org_sources
BEGIN
    SELECT RAISE(ABORT, 'a source is never forgotten');
END;
