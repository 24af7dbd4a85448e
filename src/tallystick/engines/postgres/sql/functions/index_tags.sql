-- Lock the tags of new events, as begin_condition does, and write their postings. The locks last until the commit, so a
-- condition on one of the tags is decided before these events exist, or after they are visible.
CREATE OR REPLACE FUNCTION tally.index_tags() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM added WHERE strpos(meta, '"tags"') > 0 OR strpos(meta, '\u') > 0) THEN
        RETURN NULL;
    END IF;
    PERFORM tally.lock_tags(
        ARRAY(SELECT DISTINCT tag FROM added, unnest(tally.tags_of(added.meta)) AS tag), '{}'::text[]
    );
    INSERT INTO tally.event_tags
    SELECT tag, added.type, added.position, added.org
    FROM added, unnest(tally.tags_of(added.meta)) AS tag
    ORDER BY 1, 2, 3;
    RETURN NULL;
END
$$;
