"""A copy that lacks the newest events takes over, and gives out their positions again: open handles notice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

import tallystick
from tallystick import errors, select
from tallystick.testing import postgres
from tallystick.testing.builders import event, events

from ..security.postgres.pooler import pgbouncer
from . import servers
from .servers import Server

KEPT, LOST = 20, 5


class Pair:
    """A server with an address of its own, and copies of it that can take over that address."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        self._place = place
        self._stack = stack
        self._address = place / "at"
        self._server = self._running(Server(place / "a"))
        self._address.symlink_to(self._server.socket)
        self._database = urlsplit(postgres.create_database(self._server.url)).path
        self.url = self._url(self._address)
        with tallystick.open(self.url) as store:
            store.append("order/a", events(KEPT))

    def _running(self, server: Server) -> Server:
        self._stack.callback(server.stop)
        return server

    def _url(self, socket: Path) -> str:
        return f"postgresql://postgres:@{self._database}?{urlencode({'host': str(socket)})}"

    def stale(self, *, standby: bool) -> Server:
        """A copy of the current state, not started: a standby that lost its primary, or a base backup."""
        place = self._server.copied(self._place / "b", *(["-R"] if standby else []))
        for _ in place.glob("standby.signal"):
            with (place / "postgresql.auto.conf").open("a") as settings:
                settings.write("primary_conninfo = ''\n")
        return self._running(Server(place))

    def take_over(self, copy: Server, *, reuse: int) -> None:
        """Stop the server, start the copy at its address, and append so many events of another history."""
        self._server.stop()
        self._address.unlink()
        self._address.symlink_to(copy.socket)
        if reuse:
            with tallystick.open(self.url) as store:
                store.append("order/other", events(reuse))


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A server and its address."""
    with servers.directory() as place, ExitStack() as stack:
        yield Pair(place, stack)


@contextmanager
def failed_over(
    pair: Pair, *, standby: bool, reuse: int, address: str | None = None
) -> Iterator[list[tallystick.Store]]:
    """Handles that stay open while a stale copy takes over: one appends, one reads everything, one reads nothing."""
    copy = pair.stale(standby=standby)
    if standby:
        copy.promote()
    with ExitStack() as opened:
        url = address or pair.url
        writer = opened.enter_context(tallystick.open(url))
        reader = opened.enter_context(tallystick.open(url, readonly=True))
        filtered = opened.enter_context(tallystick.open(url, readonly=True))
        assert reader.read().through == KEPT
        writer.append("order/lost", events(LOST))
        assert reader.read(after=KEPT).through == KEPT + LOST
        assert filtered.read(selection=select(type="never.happened")).through == KEPT + LOST
        pair.take_over(copy, reuse=reuse)
        yield [writer, reader, filtered]


@pytest.mark.parametrize("standby", [True, False], ids=["standby", "backup"])
@pytest.mark.parametrize("reuse", [0, LOST - 2, LOST + 10], ids=["none", "some", "past"])
def test_an_open_handle_refuses_a_copy_that_lacks_what_it_read(pair: Pair, standby: bool, reuse: int) -> None:
    """CP-07: if none, some or more of the lost positions are given out again, no event is skipped silently."""
    with failed_over(pair, standby=standby, reuse=reuse) as stores:
        for store in stores:
            for _ in range(2):
                with pytest.raises(errors.HistoryReplaced, match="position 25"):
                    store.read(after=KEPT + LOST)
            with pytest.raises(errors.HistoryReplaced):
                store.wait(KEPT + LOST, timeout=0.2)
        with pytest.raises((errors.HistoryReplaced, errors.StoreFailed), match="position 25"):
            stores[0].append("order/a", event())


@pytest.mark.parametrize("appends_first", [True, False])
def test_an_open_handle_through_a_pooler_notices_too(pair: Pair, appends_first: bool) -> None:
    """CP-07: the pooler keeps the client's connection, and connects it to another server."""
    with (
        pgbouncer(pair.url) as address,
        failed_over(pair, standby=True, reuse=LOST + 10, address=address) as stores,
    ):
        writer, *readers = stores
        acts = [lambda: writer.append("order/a", event()), lambda: writer.read(after=KEPT + LOST)]
        acts += [lambda store=store: store.read(after=KEPT) for store in readers]  # type: ignore[misc]
        for act in acts if appends_first else acts[1:]:
            _wait_for_server(act)


def _wait_for_server(act: Callable[[], object]) -> None:
    """For a while the pooler reports that the server is gone."""
    for _ in range(100):
        try:
            act()
        except errors.HistoryReplaced:
            return
        except (errors.NotReachable, errors.StoreFailed) as problem:
            if "position 25" in str(problem):
                return
            time.sleep(0.2)
        else:
            pytest.fail("it was answered by a copy that lacks events")
    pytest.fail("the pooler did not find the server")


def test_a_tenant_s_handle_refuses_another_server(pair: Pair) -> None:
    """CP-07: a tenant sees only its own events and may not see what a copy lacks, so the timeline decides."""
    copy = pair.stale(standby=True)
    copy.promote()
    with tallystick.open(pair.url) as store, tallystick.open(pair.url, readonly=True, org="acme") as tenant:
        assert tenant.read().events == []
        store.append("order/lost", events(LOST))
        assert tenant.read(after=KEPT).through == KEPT + LOST
        pair.take_over(copy, reuse=0)
        with pytest.raises(errors.HistoryReplaced, match="another server"):
            tenant.read(after=KEPT + LOST)


@pytest.mark.parametrize("standby", [True, False], ids=["standby", "backup"])
def test_an_open_handle_continues_with_a_complete_copy(pair: Pair, standby: bool) -> None:
    """CP-07: after a failover that lost nothing, nothing is refused."""
    with tallystick.open(pair.url) as store:
        assert store.read().through == KEPT
        copy = pair.stale(standby=standby)
        if standby:
            copy.promote()
        pair.take_over(copy, reuse=0)
        assert store.read(after=KEPT).events == []
        position = store.append("order/a", event()).position
        assert [found.position for found in store.read(after=KEPT).events] == [position]
