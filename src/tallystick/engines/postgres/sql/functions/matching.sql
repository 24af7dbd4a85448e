-- The positions of the events that match a query, the first `most` of those with after < position <= until, pruned ones
-- among them. `items` is a list of {"types": [...], "tags": [...]}. In a session with an org, only those of that org.
-- Each step is one probe of an index: settings keep the planner from anything else before its first ANALYZE.
CREATE OR REPLACE FUNCTION tally.matching(items jsonb, after bigint, until bigint, of_org text, most bigint)
RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    scope text := nullif(current_setting('tally.org', true), '');
    last bigint := coalesce(until, 9223372036854775807);
    item jsonb;
    tags text[];
    types text[];
    of_type text;
    driver text;
    found bigint[] := '{}';
BEGIN
    IF scope IS NULL THEN
        IF NOT pg_has_role(
            coalesce(nullif(current_setting('role'), 'none'), session_user)::name, 'tally_app', 'USAGE'
        ) THEN
            RETURN;
        END IF;
    ELSIF coalesce(of_org, scope) <> scope THEN
        RETURN;
    ELSE
        of_org := scope;
    END IF;
    FOR item IN SELECT jsonb_array_elements(items) LOOP
        tags := ARRAY(SELECT jsonb_array_elements_text(item -> 'tags'));
        types := ARRAY(SELECT jsonb_array_elements_text(item -> 'types'));
        IF tags = '{}' THEN
            found := found || tally.matching_types(types, after, last, of_org, most);
            CONTINUE;
        END IF;
        IF types = '{}' THEN
            types := tally.types_of(tags[1]);
        END IF;
        FOREACH of_type IN ARRAY types LOOP
            driver := tags[1];
            IF cardinality(tags) > 1 THEN
                SELECT given INTO driver
                FROM unnest(tags) AS given
                ORDER BY (SELECT count(*) FROM (
                    SELECT FROM tally.event_tags AS posting
                    WHERE posting.tag = given AND posting.type = of_type AND posting.position > after
                    LIMIT 100
                ) AS counted)
                LIMIT 1;
            END IF;
            found := found || ARRAY(
                SELECT posting.position
                FROM tally.event_tags AS posting
                WHERE posting.tag = driver AND posting.type = of_type
                    AND posting.position > after AND posting.position <= last
                    AND (of_org IS NULL OR posting.org = of_org)
                    AND NOT EXISTS (
                        SELECT FROM unnest(tags) AS other
                        WHERE other <> driver AND NOT EXISTS (
                            SELECT FROM tally.event_tags AS same
                            WHERE same.tag = other AND same.type = of_type AND same.position = posting.position
                        )
                    )
                ORDER BY posting.position
                LIMIT most
            );
        END LOOP;
    END LOOP;
    RETURN QUERY SELECT DISTINCT position FROM unnest(found) AS position ORDER BY position LIMIT most;
END
$$;

GRANT EXECUTE ON FUNCTION tally.matching TO tally_app, tally_maintenance, tally_reader;
