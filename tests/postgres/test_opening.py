"""Opening a database as a store: what is created, migrated and refused."""

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
from tallystick.store.urls import redacted
from tallystick.store.verify import verify
from tallystick.testing import postgres
from tallystick.testing.builders import event

from . import catalog
from .older import BEFORE, make_older

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_both_schemes_open_the_same_engine(url: str, scheme: str) -> None:
    """CP-12: `postgresql://` and `postgres://` are one engine."""
    with tallystick.open(url.replace("postgresql", scheme, 1)) as store:
        assert store.log.engine == "postgres"


def test_many_openers_make_one_store(url: str) -> None:
    """CP-12: several openers of a new database at the same time agree on one store."""
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


def test_a_new_store_is_created_at_the_latest_format(store: Store, connect: Connect) -> None:
    """CP-12: the table of steps has one row for the schema, and the report says the format."""
    rows = connect().execute("SELECT number, name FROM tally.migrations ORDER BY number").fetchall()
    assert rows == [(migrations.latest(), "schema")]
    assert store.report().facts["format"] == migrations.latest()


def test_an_older_database_is_migrated_without_loss(url: str, store: Store, connect: Connect) -> None:
    """CP-12: a database of an earlier format is brought up to date by the next writer, and refused to a reader.

    Its schema is then that of a new store: definitions, owners and rights.
    """
    store.append("order/a", event())
    store.close()
    new = catalog.described(connect())
    make_older(connect())
    assert catalog.described(connect()) != new
    with pytest.raises(errors.OlderFormat):
        tallystick.open(url, readonly=True)
    with tallystick.open(url) as migrated:
        assert migrated.report().recovered == (f"migrated from format {BEFORE} to {migrations.latest()}",)
        assert migrated.report().facts["format"] == migrations.latest()
        assert migrated.append("order/a", event()).seq == 2
        assert verify(migrated.log).ok
    assert catalog.described(connect()) == new
    rows = connect().execute("SELECT number FROM tally.migrations ORDER BY number").fetchall()
    assert rows == [(BEFORE,), *((step.number,) for step in migrations.steps())]


def test_a_database_that_is_too_old_is_refused(url: str, store: Store, connect: Connect) -> None:
    """CP-12: a format without a step is refused by name, to writers, readers and `tally migrate`, and not touched."""
    store.close()
    make_older(connect(), number=BEFORE - 1)
    before = catalog.described(connect())
    for readonly in (True, False):
        with pytest.raises(errors.FormatTooOld, match="tally export") as refused:
            tallystick.open(url, readonly=readonly)
        assert (refused.value.found, refused.value.oldest) == (BEFORE - 1, BEFORE)
    assert CliRunner().invoke(tally, ["migrate", url]).exit_code == 2
    assert catalog.described(connect()) == before


def test_a_migration_that_fails_changes_nothing(
    url: str, store: Store, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CP-12: a step, the functions and the number are one transaction."""
    store.close()
    make_older(connect())
    before = catalog.described(connect())
    broken = f"{migrations.functions()}\nSELECT no_such_function();"
    monkeypatch.setattr(migrations, "functions", lambda: broken)
    with pytest.raises(errors.TallyError):
        tallystick.open(url)
    assert catalog.described(connect()) == before
    with pytest.raises(errors.OlderFormat):
        tallystick.open(url, readonly=True)


def test_functions_can_be_installed_again(store: Store, connect: Connect) -> None:
    """CP-12: installing them a second time changes no definition, owner or right."""
    before = catalog.described(connect())
    with connect() as connection, connection.transaction():
        connection.execute("SET LOCAL ROLE tally_owner")
        connection.execute(migrations.functions().encode())
    assert catalog.described(connect()) == before


def test_a_newer_database_is_refused(url: str, store: Store, connect: Connect) -> None:
    """CP-12: a version that does not know the format does not touch it."""
    connect().execute("INSERT INTO tally.migrations (number, name) VALUES (999, 'later')")
    for readonly in (True, False):
        with pytest.raises(errors.NewerFormat) as refused:
            tallystick.open(url, readonly=readonly)
        assert (refused.value.found, refused.value.known) == (999, migrations.latest())


def test_each_way_to_find_no_database_has_its_error(url: str) -> None:
    """A missing database, a server that does not respond, and an invalid URL each get their own error."""
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
    """CP-11: nor do the errors about an unreadable URL, or about a store that cannot be refilled."""
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
    """CP-11: a password is hidden anywhere in a URL; a URL without one is shown as it is."""
    assert redacted(url) == expected


def test_a_command_does_not_print_the_password(url: str) -> None:
    """CP-11: commands print the URL without its password."""
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
    """An option outside of its bounds is refused before anything is created."""
    with pytest.raises(errors.InvalidInput):
        tallystick.open(url, **options)
    with pytest.raises(errors.StoreNotFound):
        tallystick.open(url, readonly=True)


def test_sources_that_an_older_format_left_count_for_every_org(store: Store, connect: Connect) -> None:
    """CP-10, CP-12, LH-03: nobody can say which org the pruned events of such a source belonged to."""
    connect().execute("INSERT INTO tally.sources (source, seq) VALUES ('gone', 9)")
    store.append("order/a", event(meta={"org": "acme", "source": "till", "source_seq": 5}))
    for org, source, last in (("acme", "till", 5), ("acme", "gone", 9), ("bolt", "gone", 9)):
        with pytest.raises(errors.SourceRepeated) as refused:
            store.append("order/b", event(meta={"org": org, "source": source, "source_seq": last}))
        assert refused.value.last == last
    store.append("order/c", event(meta={"org": "bolt", "source": "till", "source_seq": 1}))
    store.append("order/c", event(meta={"org": "bolt", "source": "gone", "source_seq": 10}))
