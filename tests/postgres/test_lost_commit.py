"""If the connection is lost during a commit, the outcome is found out, and nothing happens twice."""

from __future__ import annotations

import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import pytest
from psycopg import conninfo

import tallystick
from tallystick import NewEvent, Store, errors, match
from tallystick.event import ids
from tallystick.store.verify import verify

MARK = "cut.here"


class CuttingProxy:
    """Forwards everything until a message of a client contains `cut_at`. Then it cuts that connection, once.

    `delivered` says whether the server gets the message: the client learns of its fate in neither case.
    """

    def __init__(self, url: str, place: Path) -> None:
        parts: dict[str, Any] = dict(conninfo.conninfo_to_dict(url))
        host, port = str(parts.get("host") or "localhost"), str(parts.get("port") or "5432")
        self._upstream: Any = f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, int(port))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place / ".s.PGSQL.5432"))
        self._listener.listen()
        self.url = urlunsplit(urlsplit(url)._replace(query=f"host={quote(str(place))}"))
        self.cut_at: bytes | None = None
        self.delivered = True
        self.cuts = 0
        self.closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        family = socket.AF_UNIX if isinstance(self._upstream, str) else socket.AF_INET
        with suppress(OSError), client, socket.socket(family) as server:
            if self.closed:
                return
            server.connect(self._upstream)
            muted = False
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for side in ready:
                    data = side.recv(1 << 20)
                    if not data or (muted and side is server):  # it has answered, so it was done; nobody hears it
                        return
                    if side is server:
                        client.sendall(data)
                        continue
                    cut = self._is_cut(data)
                    if (self.closed and not cut and not muted) or (cut and not self.delivered):
                        return
                    server.sendall(data)
                    muted = muted or cut

    def _is_cut(self, data: bytes) -> bool:
        if self.cut_at is None or self.cut_at not in data:
            return False
        self.cut_at = None
        self.cuts += 1
        return True

    def close(self) -> None:
        """Accept no more connections, and close those that are used again."""
        self.closed = True
        self._listener.close()


@pytest.fixture
def proxy(url: str) -> Iterator[CuttingProxy]:
    """A proxy in front of the server. Its directory has a short name, because names of sockets are short."""
    place = Path(tempfile.mkdtemp(prefix="cut-"))
    made = CuttingProxy(url, place)
    yield made
    made.close()
    shutil.rmtree(place)


@pytest.fixture
def through(proxy: CuttingProxy) -> Iterator[Store]:
    """The store, opened through the proxy."""
    with tallystick.open(proxy.url) as store:
        store.append("order/a", NewEvent("thing.done", {}))
        yield store


@pytest.mark.parametrize("delivered", [True, False], ids=["committed", "never arrived"])
@pytest.mark.parametrize("size", [1, 2, 50])
@pytest.mark.parametrize("stream", ["order/a", "run/a"])
def test_the_outcome_is_found_by_event_id(
    proxy: CuttingProxy, through: Store, reopen: Callable[..., Store], stream: str, size: int, delivered: bool
) -> None:
    """CP-05: whether the server got the commit or not, the caller gets one outcome, and the events are stored once."""
    expected = 1 if stream == "order/a" else 0
    if stream == "run/a":
        through.acquire_lease(stream)
    proxy.delivered = delivered
    proxy.cut_at = MARK.encode() if size == 1 else b"COMMIT"
    done = through.append(stream, [NewEvent(MARK, {"n": n}) for n in range(size)], expected=expected)
    assert proxy.cuts == 1
    assert (done.first_seq, done.last_seq, done.stored) == (expected + 1, expected + size, 0)
    stored = reopen().read_stream(stream, after=expected)
    assert [event.data["n"] for event in stored] == list(range(size))
    assert (stored[-1].link, stored[-1].position) == (done.link, done.last_position)
    assert through.append(stream, NewEvent("thing.done", {}), expected=expected + size).seq == expected + size + 1
    assert verify(through.log).ok


@pytest.mark.parametrize("delivered", [True, False], ids=["committed", "never arrived"])
def test_a_refusal_stays_a_refusal(proxy: CuttingProxy, through: Store, delivered: bool) -> None:
    """CP-05: an append that was refused is refused again, with the same values."""
    proxy.delivered = delivered
    proxy.cut_at = MARK.encode()
    with pytest.raises(errors.Conflict) as refused:
        through.append("order/a", NewEvent(MARK, {}), expected=7)
    assert (proxy.cuts, refused.value.expected, refused.value.actual) == (1, 7, 1)


@pytest.mark.parametrize("delivered", [True, False], ids=["committed", "never arrived"])
@pytest.mark.parametrize("size", [1, 3])
def test_its_own_events_do_not_fail_its_condition(
    proxy: CuttingProxy, through: Store, reopen: Callable[..., Store], size: int, delivered: bool
) -> None:
    """TAG-02, CP-05: events that match and were stored by the lost attempt are its own; those of others are not."""
    name = match(tags=["name:ada"])
    proxy.delivered = delivered
    proxy.cut_at = MARK.encode() if size == 1 else b"COMMIT"
    done = through.append("order/b", [NewEvent(MARK, {}, tags=["name:ada"])] * size, unless=name)
    assert (proxy.cuts, done.first_seq, done.last_seq, done.stored) == (1, 1, size, 0)
    assert len(reopen().consult(name).events) == size
    proxy.cut_at = MARK.encode() if size == 1 else b"begin_condition"
    with pytest.raises(errors.ConditionFailed, match="position 2"):
        through.append("order/c", [NewEvent(MARK, {}, tags=["name:ada"])] * size, unless=name)
    assert proxy.cuts == 2
    assert through.stream_head("order/c") is None


def test_readers_ask_again(proxy: CuttingProxy, through: Store) -> None:
    """CP-07: a read that loses its connection is repeated on another one."""
    proxy.cut_at = b"tally.events"
    assert len(through.read_stream("order/a")) == 1
    assert len(through.read().events) == 1


def test_a_server_that_stays_away_leaves_the_outcome_open(
    proxy: CuttingProxy, through: Store, reopen: Callable[..., Store]
) -> None:
    """LH-16: if the outcome cannot be found out, the error says so; a retry with the same ids settles it."""
    id_ = "0199b000-0000-7000-8000-000000000009"
    new = NewEvent(MARK, {}, id=ids.to_bytes(id_))
    through.log._connections._pool.timeout = 0.5  # type: ignore[attr-defined]
    proxy.cut_at = MARK.encode()
    proxy.close()
    with pytest.raises(errors.StoreFailed) as failed:
        through.append("order/a", new)
    assert "same event ids" in failed.value.next_step
    again = reopen()
    again.append("order/a", new)
    assert [found.type for found in again.read_stream("order/a")] == ["thing.done", MARK]
