-- What the login can do or become that the owner of the tables of projections cannot.
SELECT more
FROM (
    SELECT 1 AS rank, 'is ' || attribute AS more
    FROM pg_roles, LATERAL (VALUES
        (rolsuper, 'a superuser'), (rolcreaterole, 'allowed to create roles'), (rolcreatedb, 'allowed to create databases'),
        (rolreplication, 'allowed to replicate'), (rolbypassrls, 'exempt from row-level security')
    ) AS had(it, attribute)
    WHERE rolname = session_user AND it
    UNION ALL
    SELECT 2, 'is a member of ' || rolname
    FROM pg_roles
    WHERE pg_has_role(session_user, oid, 'MEMBER')
        AND rolname NOT IN (session_user, 'tally_app', 'tally_reader', 'tally_projector')
) AS found
ORDER BY rank, more
LIMIT 1
