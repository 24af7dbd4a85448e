"""A store as the format before the current one left it."""

from __future__ import annotations

from typing import Any

import psycopg

from tallystick.engines.postgres import migrations

BEFORE = migrations.oldest()
_MADE_OLDER = """
SET ROLE tally_owner;
DELETE FROM tally.migrations;
INSERT INTO tally.migrations (number, name) SELECT {number}, 'an earlier step';
DROP TABLE tally.event_tags, tally_locks.tag_gate;
DROP TRIGGER tags_are_indexed ON tally.events;
ALTER TABLE tally.pruned DROP COLUMN type, DROP COLUMN tags;
DROP FUNCTION tally.appenders, tally.leases_of, tally.index_tags, tally.take_turn, tally.matching;
CREATE FUNCTION tally.take_turn(of_class integer, of_key integer) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(of_class, of_key) $$;
CREATE OR REPLACE FUNCTION tally.known_damage(kept_max integer)
RETURNS TABLE (what text, reason text, "position" bigint, stream text, seq bigint)
LANGUAGE sql STABLE AS $$ SELECT NULL, NULL, NULL::bigint, NULL, NULL::bigint $$;
GRANT EXECUTE ON FUNCTION tally.draw, tally.require_safe TO tally_maintenance;
RESET ROLE;
"""


def make_older(connection: psycopg.Connection[Any], *, number: int = BEFORE) -> None:
    """Take functions and rights back to what an earlier format had, and its number."""
    connection.execute(_MADE_OLDER.format(number=number).encode())
