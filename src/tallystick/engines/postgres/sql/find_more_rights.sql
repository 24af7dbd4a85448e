-- What the login can do or become besides what the owner of the tables of projections can.
SELECT 'is ' || attribute
FROM pg_roles, LATERAL (VALUES
    (rolsuper, 'a superuser'), (rolcreaterole, 'allowed to make roles'), (rolcreatedb, 'allowed to make databases'),
    (rolreplication, 'allowed to replicate'), (rolbypassrls, 'not held by row-level security')
) AS had(it, attribute)
WHERE rolname = session_user AND it
UNION ALL
SELECT 'is a member of ' || rolname
FROM pg_roles
WHERE pg_has_role(session_user, oid, 'MEMBER')
    AND rolname NOT IN (session_user, 'tally_app', 'tally_reader', 'tally_projector')
ORDER BY 1
LIMIT 1
