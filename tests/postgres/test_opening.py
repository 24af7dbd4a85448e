"""Opening a database as a store: what is made, what is migrated, what is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from click.testing import CliRunner

import tallystick
from tallystick import Store, errors
from tallystick.cli.main import tally
from tallystick.engines.postgres import migrations
from tallystick.store.stating import shown
from tallystick.testing import postgres
from tallystick.testing.builders import event

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_both_schemes_open_the_same_engine(url: str, scheme: str) -> None:
    """CP-12: `postgresql://` and `postgres://` are one engine."""
    with tallystick.open(url.replace("postgresql", scheme, 1)) as store:
        assert store.log.engine == "postgres"


def test_many_openers_make_one_store(url: str) -> None:
    """CP-12: processes that open a new database at the same time agree on one store."""
    found: list[bytes] = []

    def work() -> None:
        with tallystick.open(url) as store:
            found.append(store.log.store_id)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1


def test_stores_are_made_side_by_side_on_one_server() -> None:
    """CP-12: databases of one server share the roles, also when they are made at the same moment."""
    urls = [postgres.create_database() for _ in range(4)]
    failed: list[BaseException] = []

    def work(url: str) -> None:
        try:
            tallystick.open(url).close()
        except BaseException as failure:
            failed.append(failure)

    threads = [threading.Thread(target=work, args=(url,)) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for url in urls:
        postgres.drop_database(url)
    assert failed == []


def test_migrations_are_numbered_and_noted(store: Store, connect: Connect) -> None:
    """CP-12: every step is in the table, in order, and the report says the format."""
    rows = connect().execute("SELECT number, name FROM tally.migrations ORDER BY number").fetchall()
    assert rows == [(step.number, step.name) for step in migrations.known()]
    assert store.report().facts["format"] == migrations.latest()


def test_an_older_database_is_migrated_without_loss() -> None:
    """CP-12: a database at any earlier step is brought up by the next writer, and refused to a reader."""
    for upto in [step.number for step in migrations.known()[1:-1]]:
        with postgres.database() as old:
            with psycopg.connect(old, autocommit=True) as connection:
                migrations.migrate(connection, profile="plain", clock=lambda: 0, upto=upto)
                found = migrations.version_of(connection)
            assert found == upto
            with pytest.raises(errors.OlderFormat):
                tallystick.open(old, readonly=True)
            with tallystick.open(old) as store:
                store.append("order/a", event())
                assert store.report().facts["format"] == migrations.latest()


def test_a_newer_database_is_refused(url: str, store: Store, connect: Connect) -> None:
    """CP-12: a version that does not know the format does not touch it."""
    connect().execute("INSERT INTO tally.migrations (number, name) VALUES (999, 'later')")
    for readonly in (True, False):
        with pytest.raises(errors.NewerFormat) as refused:
            tallystick.open(url, readonly=readonly)
        assert (refused.value.found, refused.value.known) == (999, migrations.latest())


def test_a_database_that_is_not_there_is_said_so(url: str) -> None:
    """A missing database, a server that does not answer, and a URL that is none each get their own error."""
    with pytest.raises(errors.StoreNotFound):
        tallystick.open(postgres.with_database(url, "no_such_database"))
    with pytest.raises(errors.NotReachable):
        tallystick.open("postgresql://localhost:1/none?connect_timeout=2")
    with pytest.raises(errors.UnknownUrl):
        tallystick.open("postgresql://host/db?no_such_option=1")


def test_a_password_is_never_shown(url: str) -> None:
    """CP-11: errors and reports show the URL without its password."""
    with pytest.raises(errors.NotReachable) as refused:
        tallystick.open("postgresql://me:hunter2@localhost:1/none?connect_timeout=2")
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in str(refused.value.as_json())


@pytest.mark.parametrize("place", ["postgresql://me:hunter2@[::1/db", "postgre://me:hunter2@host/db"])
def test_no_refusal_repeats_a_password(place: str) -> None:
    """CP-11: nor does what is said about a URL that cannot be read, or about a store that cannot be refilled."""
    with pytest.raises(errors.UnknownUrl) as unknown:
        tallystick.open(place)
    with pytest.raises(errors.RefillRefused) as refused:
        tallystick.refill(place, place)
    assert "hunter2" not in f"{unknown.value} {refused.value}"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me:hunter2@host:5432/db?a=1", "postgresql://me:…@host:5432/db?a=1"),
        ("postgresql://me:hunter:2@a:1,b:2/db", "postgresql://me:…@a:1,b:2/db"),
        ("postgresql://host/db?user=me&password=hunter2&a=1", "postgresql://host/db?user=me&password=…&a=1"),
        ("postgresql:///db?sslpassword=hunter2", "postgresql:///db?sslpassword=…"),
        ("postgresql://me:@/db?host=/tmp", "postgresql://me:@/db?host=/tmp"),
        ("files:a:b@c", "files:a:b@c"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, expected: str) -> None:
    """CP-11: wherever the password stands in a URL; what holds none is shown as it is."""
    assert shown(url) == expected


def test_a_command_does_not_print_the_password(url: str) -> None:
    """CP-11: the answers of commands hold the URL as it may be shown."""
    parts = urlsplit(url)
    secret = urlunsplit(parts._replace(netloc=f"{parts.username}:hunter2@"))
    for name in ("migrate", "verify"):
        answer = CliRunner().invoke(tally, [name, secret, "--json"])
        assert json.loads(answer.stdout)["url"].startswith(f"postgresql://{parts.username}:…@")


@pytest.mark.parametrize(
    "options",
    [{"busy_ms": 0}, {"busy_ms": "5"}, {"connections_max": 0}, {"org": ""}, {"infrastructure": ("Not a kind",)}],
    ids=str,
)
def test_options_are_checked(url: str, options: dict[str, Any]) -> None:
    """An option outside of its bounds is refused before anything is made."""
    with pytest.raises(errors.InvalidInput):
        tallystick.open(url, **options)
    with pytest.raises(errors.StoreNotFound):
        tallystick.open(url, readonly=True)


BEFORE = """
SELECT tally.append_event('order/a', -1, 't', 1, gen_random_uuid(), 0, '{}',
    '{"org":"acme","source":"till","source_seq":5}', NULL, 0, false, NULL, NULL);
SELECT tally.move_sources(ARRAY['till', 'gone'], ARRAY[5, 9]);
SET ROLE tally_app;
CREATE TABLE tally_views."view_Old_1_rows" (n bigint);
INSERT INTO tally.views (projection, epoch, live, definition, store_id, position, link_position, link, drops)
VALUES ('Old', 1, true, '{"kind":"tables"}', gen_random_uuid(), 1, 0, '', 0),
    ('Kept', 1, true, '{"kind":"rows"}', gen_random_uuid(), 1, 0, '', 0);
RESET ROLE;
"""


def test_an_upgrade_to_owners_of_their_own_keeps_what_cannot_be_made_again() -> None:
    """CP-10, CP-12, LH-03: sources go on within their org, tables that anybody could alter go, rows stay."""
    with postgres.database() as old:
        with psycopg.connect(old, autocommit=True) as connection:
            migrations.migrate(connection, profile="plain", clock=lambda: 0, upto=14)
            connection.execute(BEFORE)
        with tallystick.open(old) as store:
            for org, source, last in (("acme", "till", 5), ("bolt", "gone", 9)):
                with pytest.raises(errors.SourceRepeated) as refused:
                    store.append("order/b", event(meta={"org": org, "source": source, "source_seq": last}))
                assert refused.value.last == last
            store.append("order/c", event(meta={"org": "bolt", "source": "till", "source_seq": 1}))
        with psycopg.connect(old) as connection:
            assert connection.execute("SELECT projection FROM tally.views").fetchall() == [("Kept",)]
            tables = connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'view_Old%%'")
            assert tables.fetchone() == (0,)
