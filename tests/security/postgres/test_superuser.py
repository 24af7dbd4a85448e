"""A login with more rights touches nothing that one with fewer can own, alter or attach code to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import Event, NewEvent, Store, errors
from tallystick.engines.postgres import migrations
from tallystick.projections import TableProjection, TableRunner
from tallystick.store.idempotency import CommandKey
from tallystick.store.tables import Execute
from tallystick.store.verify import verify
from tallystick.testing import postgres

pytestmark = pytest.mark.security

Connect = Callable[..., psycopg.Connection[Any]]
Login = Callable[..., str]


class Counts(TableProjection):
    """Counts the things that were done, by stream."""

    types = ("thing.done",)
    tables = ("counts",)

    def create(self, execute: Execute) -> None:
        execute("CREATE TABLE {counts} (stream text PRIMARY KEY, many bigint NOT NULL)")

    def apply(self, execute: Any, event: Event) -> None:
        add = "ON CONFLICT (stream) DO UPDATE SET many = {counts}.many + 1"
        execute("INSERT INTO {counts} VALUES (%s, 1) " + add, (event.stream,))


TABLE = 'tally_views."view_Counts_1_counts"'
BECOME = "EXECUTE 'RESET ROLE'; EXECUTE format('ALTER ROLE %I SUPERUSER', '{me}');"
CODE = "CREATE FUNCTION {schema}.rise() RETURNS {returns} LANGUAGE plpgsql AS $$ BEGIN {become} RETURN {value}; END $$"
ATTACHED = {
    "a trigger": ("trigger", "NULL", f"CREATE TRIGGER rise AFTER INSERT ON {TABLE} EXECUTE FUNCTION {{schema}}.rise()"),
    "a trigger at the commit": (
        "trigger",
        "NULL",
        f"CREATE CONSTRAINT TRIGGER rise AFTER INSERT ON {TABLE} DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION {schema}.rise()",
    ),
    "a rule": ("bigint", "1", f"CREATE RULE rise AS ON INSERT TO {TABLE} DO ALSO SELECT {{schema}}.rise()"),
    "a check": ("boolean", "true", f"ALTER TABLE {TABLE} ADD CHECK ({{schema}}.rise())"),
    "a default": ("text", "''", f"ALTER TABLE {TABLE} ADD COLUMN more text DEFAULT {{schema}}.rise()"),
    "a policy": ("boolean", "true", f"CREATE POLICY rise ON {TABLE} USING ({{schema}}.rise())"),
    "an index": ("bigint", "1", f"CREATE INDEX ON {TABLE} ({{schema}}.rise())"),
    "a view in its place": (
        "bigint",
        "1",
        f"ALTER TABLE {TABLE} RENAME TO was; CREATE VIEW {TABLE} AS SELECT stream, {{schema}}.rise() AS many"
        " FROM tally_views.was",
    ),
}


def _plant(connection: psycopg.Connection[Any], code: tuple[str, str, str]) -> None:
    """Attach code to the table of the projection, as far as the database lets this login."""
    returns, value, attach = code
    name = connection.info.user
    for schema in ("tally_views", "public", "mine"):
        parts = {"schema": schema, "returns": returns, "value": value}
        with suppress(psycopg.Error):
            connection.execute("SET ROLE tally_app")
            connection.execute((CODE.format(become=BECOME.format(me=name), **parts)).encode())
        with suppress(psycopg.Error):
            connection.execute(attach.format(schema=schema).encode())


def _is_superuser(connect: Connect, name: str) -> bool:
    return connect().execute("SELECT rolsuper FROM pg_roles WHERE rolname = %s", (name,)).fetchone() == (True,)


@pytest.mark.parametrize("code", ATTACHED.values(), ids=ATTACHED.keys())
def test_a_login_that_appends_attaches_no_code_to_tables_of_projections(
    store: Store, url: str, login: Login, connect: Connect, code: tuple[str, str, str]
) -> None:
    """CP-01, CP-10: code that it attaches is not run by the next login that runs the projection."""
    connect().execute("CREATE SCHEMA mine")
    connect().execute("GRANT ALL ON SCHEMA public, mine TO public")
    store.append("order/a", NewEvent("thing.done", {}))
    runs = [url, login("tally_app"), *([login("tally_projector")] if _knows(connect, "tally_projector") else [])]
    with psycopg.connect(login("tally_app"), autocommit=True) as connection:
        for run in runs[::-1]:
            _run(run)
            _plant(connection, code)
        store.append("order/b", NewEvent("thing.done", {}))
        for run in runs:
            _run(run)
        assert not _is_superuser(connect, connection.info.user)


def _knows(connect: Connect, role: str) -> bool:
    return connect().execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is not None


def _run(url: str) -> None:
    with suppress(errors.TallyError), tallystick.open(url) as store:
        TableRunner(store, Counts()).catch_up()
        TableRunner(store, Counts()).query("SELECT * FROM {counts}")


PLANTED = {
    "the table of steps": (
        "CREATE SCHEMA tally",
        "CREATE VIEW tally.migrations AS SELECT public.rise() AS number, 'x' AS name",
    ),
    "the schema of the log": ("CREATE SCHEMA tally",),
    "the schema of tables": ("CREATE SCHEMA tally_views",),
    "the schema of locks": ("CREATE SCHEMA tally_locks",),
}


@pytest.mark.parametrize("number", [0, 1, migrations.latest(), migrations.latest() + 1])
@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED.keys())
def test_nobody_makes_the_schemas_before_the_store_is(
    url: str, connect: Connect, planted: tuple[str, ...], number: int
) -> None:
    """CP-01: a login that may create schemas in a database without a store runs no code as the opener."""
    with postgres.login(url) as login, psycopg.connect(login, autocommit=True) as connection:
        name = connection.info.user
        connect().execute(f"GRANT CREATE ON DATABASE {connection.info.dbname} TO {name}".encode())
        connect().execute(f"GRANT ALL ON SCHEMA public TO {name}".encode())
        body = f"BEGIN {BECOME.format(me=name)} RETURN {number}; END"
        connection.execute(f"CREATE FUNCTION public.rise() RETURNS int LANGUAGE plpgsql AS $$ {body} $$".encode())
        for statement in planted:
            connection.execute(statement.encode())
        for readonly in (False, True):
            with pytest.raises(errors.UnsafeServer, match=name):
                tallystick.open(url, readonly=readonly)
        assert not _is_superuser(connect, name)


TAKEN = {
    "unnest": "unnest(names text[]) RETURNS SETOF text",
    "format": "format(given text, name name) RETURNS text",
    "pg_has_role": "pg_has_role(one name, two oid, three text) RETURNS boolean",
    "coalesced": "max(given integer) RETURNS integer",
}


@pytest.mark.parametrize("signature", TAKEN.values(), ids=TAKEN.keys())
def test_nobody_takes_the_place_of_a_function_that_the_engine_calls(
    store: Store, url: str, login: Login, connect: Connect, signature: str
) -> None:
    """CP-01: if everybody may create in `public`, our statements do not call a better match there."""
    connect().execute("GRANT ALL ON SCHEMA public TO public")
    with psycopg.connect(login(), autocommit=True) as connection:
        become = BECOME.format(me=connection.info.user)
        body = f"LANGUAGE plpgsql AS $$ BEGIN {become} RETURN; END $$" if "SETOF" in signature else None
        body = body or f"LANGUAGE plpgsql AS $$ BEGIN {become} RETURN NULL; END $$"
        connection.execute(f"CREATE FUNCTION public.{signature} {body}".encode())
        with suppress(errors.TallyError), tallystick.open(url) as greater:
            done = [NewEvent("thing.done", {}), NewEvent("thing.done", {})]
            greater.append_all([("order/a", done, -1), ("order/b", done, -1)])
            greater.log.commands.load(CommandKey("", "me", "here", "1"))
            greater.report()
            verify(greater.log)
        assert not _is_superuser(connect, connection.info.user)


@pytest.mark.parametrize(
    ("roles", "more"), [((), "a superuser"), (("tally_projector", "tally_maintenance"), "tally_maintenance")], ids=str
)
def test_a_login_that_may_do_more_runs_no_projection_with_tables(
    store: Store, url: str, login: Login, roles: tuple[str, ...], more: str
) -> None:
    """CP-10: code on the tables runs with the rights of the login, so one with more rights is refused by name."""
    store.append("order/a", NewEvent("thing.done", {}))
    _run(login("tally_projector"))
    store.append("order/b", NewEvent("thing.done", {}))
    with tallystick.open(login(*roles) if roles else url) as greater:
        for work in (TableRunner.catch_up, TableRunner.rebuild, lambda runner: runner.query("SELECT 1")):
            with pytest.raises(errors.NotPermitted, match=more):
                work(TableRunner(greater, Counts()))


def test_a_login_that_appends_owns_nothing(store: Store, connect: Connect) -> None:
    """CP-01: the login owns no schema of ours, no table or function in one, and no right to attach code."""
    owned = """SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tally%' AND (
            has_schema_privilege('tally_app', oid, 'CREATE') OR pg_get_userbyid(nspowner) <> 'tally_owner')
        UNION ALL SELECT oid::regclass::text FROM pg_class WHERE relnamespace::regnamespace::text LIKE 'tally%' AND (
            pg_get_userbyid(relowner) IN ('tally_app', 'tally_reader')
            OR relkind IN ('r', 'v') AND has_table_privilege('tally_app', oid, 'TRIGGER, REFERENCES, TRUNCATE'))
        UNION ALL SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace::regnamespace::text LIKE 'tally%'
            AND pg_get_userbyid(proowner) <> 'tally_owner'"""
    assert connect().execute(owned).fetchall() == []
