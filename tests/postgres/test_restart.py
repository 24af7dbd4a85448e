"""A server that crashes and comes back, and one that follows another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

import tallystick
from tallystick import errors
from tallystick.store.verify import verify
from tallystick.testing import postgres
from tallystick.testing.builders import event, events

from . import servers
from .servers import Server


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name."""
    with servers.directory() as found:
        yield found


@pytest.fixture
def server(place: Path) -> Iterator[Server]:
    """A server for one test."""
    made = Server(place / "data")
    yield made
    made.stop()


def test_a_crash_of_the_server_loses_nothing_and_stalls_nobody(server: Server) -> None:
    """CP-04, LH-19: after a crash handles continue, acknowledged events are stored, and readers cross gaps."""
    url = postgres.create_database(server.url)
    with tallystick.open(url) as store, tallystick.open(url, readonly=True) as reader:
        seen, after, stored = [], 0, []
        for round_ in range(3):
            done = store.append("order/many", events(7))
            stored += range(done.first_position, done.last_position + 1)
            for number in range(5):
                stored.append(store.append(f"order/{number}", event(number)).position)
            server.crash()
            stored.append(store.append("order/after", event(round_)).position)
            page = reader.read(after=after)
            seen += [found.position for found in page.events]
            after = page.through
        assert seen == stored
        assert store.head() == stored[-1]
        assert stored[-1] > len(stored), "the sequence did not jump: this crash proves little"
        assert verify(store.log).problems == []


def test_a_standby_reads_what_is_published(server: Server, place: Path) -> None:
    """CP-04: a standby has no locks to look at, so it reads up to the published head, which follows the writers."""
    url = postgres.create_database(server.url)
    with tallystick.open(url) as store:
        store.append("order/a", events(3))
        following = server.standby(place / "standby")
        try:
            copy = postgres.with_database(following.url, urlsplit(url).path[1:])
            with tallystick.open(copy) as standby:
                assert standby.wait(2, timeout=30) == 3
                slow = psycopg.connect(url)
                slow.execute(
                    "SELECT tally.append_event('order/slow', -1, 't', 1, gen_random_uuid(), 0, '{}', '{}', NULL, 0,"
                    " false, NULL, NULL)"
                )
                done = store.append("order/a", event())
                assert standby.wait(3, timeout=1) == 3
                slow.rollback()
                slow.close()
                done = store.append("order/a", event())
                assert standby.wait(done.position - 1, timeout=30) == done.position
                assert standby.read().events == store.read().events
                with pytest.raises(errors.ReadOnly, match="standby"):
                    standby.append("order/a", event())
        finally:
            following.stop()


def test_a_logical_replica_is_refused(server: Server) -> None:
    """CP-04: a logical replica has no locks, and rows in the order of commits, so followers would miss events."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET wal_level = logical")
    server.crash()
    url = postgres.create_database(server.url)
    with tallystick.open(url) as store:
        store.append("order/a", events(3))
    name = urlsplit(url).path[1:]
    copy = postgres.with_database(server.url, f"{name}_copy")
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}_copy" TEMPLATE "{name}"')
    with psycopg.connect(url, autocommit=True) as primary:
        primary.execute("CREATE PUBLICATION shop FOR TABLES IN SCHEMA tally")
        primary.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
    with psycopg.connect(copy, autocommit=True) as replica:
        replica.execute(
            f"CREATE SUBSCRIPTION shop CONNECTION 'host={server.socket} user=postgres dbname={name}'"
            " PUBLICATION shop WITH (create_slot = false, copy_data = false)"
        )
        for readonly in (True, False):
            with pytest.raises(errors.UnsafeServer, match="logical replica"):
                tallystick.open(copy, readonly=readonly)
        replica.execute("ALTER SUBSCRIPTION shop DISABLE")
        replica.execute("ALTER SUBSCRIPTION shop SET (slot_name = NONE)")
        replica.execute("DROP SUBSCRIPTION shop")
        with tallystick.open(copy, readonly=True) as store:
            assert store.head() == 3
