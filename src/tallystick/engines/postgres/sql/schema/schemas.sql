-- The schemas are created by the role that logs in, because the owner may not create any: `tally` has the log,
-- `tally_views` the tables that projections own, and `tally_locks` the tables that are locked (locks.sql).

CREATE SCHEMA tally AUTHORIZATION tally_owner;
CREATE SCHEMA tally_views AUTHORIZATION tally_owner;
CREATE SCHEMA tally_locks AUTHORIZATION tally_owner;

GRANT USAGE ON SCHEMA tally TO tally_maintenance, tally_app, tally_reader;
GRANT USAGE, CREATE ON SCHEMA tally_views TO tally_projector;
GRANT USAGE ON SCHEMA tally_views TO tally_app, tally_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE tally_projector IN SCHEMA tally_views GRANT SELECT ON TABLES TO tally_app;

-- Everything that follows belongs to the owner.
SET LOCAL ROLE tally_owner;
ALTER DEFAULT PRIVILEGES FOR ROLE tally_owner REVOKE ALL ON FUNCTIONS FROM PUBLIC;
