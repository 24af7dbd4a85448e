"""Fan-out: send new events of this node to its peers at once, in addition to the regular rounds.

Best effort: one attempt per peer, in a separate thread, bounded in time and number. A peer that failed is skipped for a
while. The next round of gossip delivers what is lost here, so nothing is stored and nothing is retried.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from tallystick import errors
from tallystick.community import credentials, messages
from tallystick.community.entry import ERASED
from tallystick.community.log import EventLog
from tallystick.community.messages import Delivery
from tallystick.community.schedule import run
from tallystick.community.sync import HttpClient, Peer
from tallystick.community.types import Event

SECONDS_MAX = 10.0
PAUSE_SECONDS = 30.0

Connect = Callable[[Peer], HttpClient]


class Fanout:
    """Watches one log and sends new events of its node to peers. A context manager; or call `start` and `stop`."""

    def __init__(
        self, log: EventLog, peers: Callable[[], Sequence[Peer]], connect: Connect, *, seconds_max: float = SECONDS_MAX
    ) -> None:
        self._log = log
        self._peers = peers
        self._connect = connect
        self._seconds_max = seconds_max
        self._at = log.arrivals
        self._news = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._stopped = False
        self._paused: dict[str, float] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start: events written from now on are sent."""
        self._at = self._log.arrivals
        self._stopped = False
        self._log.wakers.append(self._wake)
        self._thread = threading.Thread(target=self._run, name="community-fanout", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop. A delivery in progress may still arrive. Safe to call twice."""
        if self._thread is None:
            return
        self._stopped = True
        self._log.wakers.remove(self._wake)
        self._news.set()
        self._thread.join()
        self._thread = None

    def flush(self, seconds: float) -> bool:
        """Wait until everything written so far was tried. Returns False if the time ran out."""
        return self._idle.wait(seconds)

    def __enter__(self) -> Fanout:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wake(self) -> None:
        self._idle.clear()
        self._news.set()

    def _run(self) -> None:
        while not self._stopped:
            self._news.wait()
            self._news.clear()
            self._hand_on()
            if not self._news.is_set():
                self._idle.set()

    def _hand_on(self) -> None:
        entries, self._at = self._log.arrived(self._at)
        own = [entry for entry in entries if entry.author == self._log.replica.node and entry.payload != ERASED]
        events = self._log.events_of(own[-messages.EVENTS_MAX :])
        now = time.monotonic()
        peers = [peer for peer in self._peers() if self._paused.get(peer.key, now) <= now]
        if events and peers:
            run(self._push_all(peers, events))

    async def _push_all(self, peers: Sequence[Peer], events: list[Event]) -> None:
        await asyncio.gather(*(self._push(peer, events) for peer in peers))

    async def _push(self, peer: Peer, events: list[Event]) -> None:
        try:
            credentials.require_welcome(self._log.replica, peer.key)
            async with asyncio.timeout(self._seconds_max), self._connect(peer) as client:
                await client.ask(Delivery(community_id=self._log.community, events=events))
            self._paused.pop(peer.key, None)
        except (errors.TallyError, TimeoutError, OSError):
            self._paused[peer.key] = time.monotonic() + PAUSE_SECONDS
