SELECT session_user, rolname
FROM pg_roles
WHERE rolname IN ('tally_app', 'tally_reader', 'tally_control', 'tally_projector', 'tally_maintenance')
    AND pg_has_role(session_user, oid, 'MEMBER')
