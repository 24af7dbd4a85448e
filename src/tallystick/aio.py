"""The async face of a store: one writer thread that commits together what many tasks append, and no logic of its own.

Appends that wait at the same time share one fsync. Each task still gets its own outcome, and gets it only when its
events are on disk. A task that is cancelled while it waits may have appended: retry with the same event ids.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Any

from tallystick import errors, opening, state
from tallystick.event.model import Event, NewEvent
from tallystick.store.commit import Appended, Outcome
from tallystick.store.events import PAGE_EVENTS
from tallystick.store.expectation import ANY
from tallystick.store.ledger import Head
from tallystick.store.page import Page
from tallystick.store.prepare import Part, Request
from tallystick.store.selection import EVERYTHING, Selection, select
from tallystick.store.store import Store

WINDOW_MS_MAX = 10.0
GROUP_REQUESTS_MAX = 4096
PENDING_MAX = 65_536
FOLLOW_SECONDS = 1.0


async def open(url: str, *, window_ms: float = 0.0, reducers: Iterable[Any] = (), **options: Any) -> AsyncStore:
    """Open the store at `url` for the running event loop; options as in `tallystick.open`.

    `window_ms` (up to 10) lets the writer thread wait for company before it commits. The default waits for nobody:
    what arrives during one fsync goes into the next. `reducers` are those that `create_snapshot` snapshots.
    """
    _check_window(window_ms)
    registered = state.registry(reducers)
    store = await asyncio.to_thread(opening.open, url, **options)
    return AsyncStore(store, window_ms=window_ms, reducers=registered)


def _check_window(window_ms: object) -> None:
    if type(window_ms) not in (int, float) or not 0 <= window_ms <= WINDOW_MS_MAX:  # type: ignore[operator]
        raise errors.InvalidValue(what="window_ms", value=window_ms, must=f"from 0 to {WINDOW_MS_MAX:g}")


class AsyncStore:
    """An open store, for the tasks of one event loop."""

    def __init__(self, store: Store, *, window_ms: float = 0.0, reducers: Iterable[Any] = ()) -> None:
        _check_window(window_ms)
        self.store = store
        self.reducers = state.registry(reducers)
        self._waiting: asyncio.Future[int] | None = None
        self._waiting_after = 0
        self._committer = Committer(store, asyncio.get_running_loop(), window_seconds=window_ms / 1000)

    # --- writing ---------------------------------------------------------------------------------------------------

    async def append(self, stream: str, events: NewEvent | Sequence[NewEvent], *, expected: int = ANY) -> Appended:
        """Append to one stream, all or nothing, and wait until it is on disk."""
        one = isinstance(events, NewEvent) or not isinstance(events, Iterable)  # what is no event is refused by name
        given: Any = [events] if one else list(events)  # type: ignore[arg-type]
        if self._committer.is_full:
            await self._committer.room()
        return (await self._committer.hand_in(Request([Part(stream, given, expected)])))[0]

    async def append_batch(self, stream: str, events: Sequence[NewEvent], *, expected: int = ANY) -> Appended:
        """Append several events to one stream: `append` under the name that a batch is looked for by."""
        return await self.append(stream, events, expected=expected)

    async def append_all(self, parts: Iterable[tuple[str, Sequence[NewEvent], int] | Part]) -> list[Appended]:
        """Append to several streams in one commit, all or nothing: (stream, events, expected) each."""
        given = [part if isinstance(part, Part) else Part(*part) for part in parts]
        if not given:
            raise errors.InvalidValue(what="parts", value=[], must="at least one (stream, events, expected)")
        if self._committer.is_full:
            await self._committer.room()
        return await self._committer.hand_in(Request(given))

    async def submit(self, request: Request) -> list[Appended]:
        """One all-or-nothing request, committed together with what else waits: for our own layers."""
        if self._committer.is_full:
            await self._committer.room()
        return await self._committer.hand_in(request)

    @property
    def waiting(self) -> int:
        """How many requests wait for the writer thread to take them."""
        return self._committer.waiting

    # --- reading ---------------------------------------------------------------------------------------------------

    async def read(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        selection: Selection = EVERYTHING,
        limit: int = PAGE_EVENTS,
        over_holes: bool = False,
    ) -> Page:
        """One page of the log in order of position; go on with `after=page.through`."""
        return await asyncio.to_thread(
            self.store.read, after=after, until=until, selection=selection, limit=limit, over_holes=over_holes
        )

    async def read_stream(
        self, stream: str, *, after: int = 0, until: int | None = None, limit: int | None = None
    ) -> list[Event]:
        """Events of one stream with after < seq <= until: all of them, or the first `limit`."""
        return await asyncio.to_thread(self.store.read_stream, stream, after=after, until=until, limit=limit)

    async def stream(self, name: str, *, after: int = 0, until: int | None = None) -> AsyncIterator[Event]:
        """Every event of one stream with after < seq <= until, page after page."""
        while page := await self.read_stream(name, after=after, until=until, limit=PAGE_EVENTS):
            for event in page:
                yield event
            after = page[-1].seq

    async def consume(
        self, name: str, *, selection: Selection = EVERYTHING, batch_events: int = PAGE_EVENTS
    ) -> AsyncIterator[Page]:
        """What the consumer `name` has not handled yet, page after page; its place is saved as `Store.consume` does."""
        pages = self.store.consume(name, selection=selection, batch_events=batch_events)
        while (page := await asyncio.to_thread(next, pages, None)) is not None:
            yield page

    async def find(self, id: Any) -> Event | None:
        """The event with this id, or None."""
        return await asyncio.to_thread(self.store.find, id)

    async def head(self) -> int:
        """The highest position that is final."""
        return await asyncio.to_thread(self.store.head)

    async def stream_head(self, stream: str) -> Head | None:
        """The end of a stream, or None if it does not exist."""
        return await asyncio.to_thread(self.store.stream_head, stream)

    async def events(
        self, *, after: int = 0, until: int | None = None, selection: Selection = EVERYTHING
    ) -> AsyncIterator[Event]:
        """Every event up to `until`, or up to the head at the time of the call."""
        until = await self.head() if until is None else until
        while after < until:
            page = await self.read(after=after, until=until, selection=selection)
            for event in page.events:
                yield event
            if page.through <= after:
                return
            after = page.through

    def get_events(self, start_time: int, end_time: int) -> AsyncIterator[Event]:
        """Events whose time is in [start_time, end_time), in ns, in order of position."""
        return self.events(selection=select(time_from=start_time, time_until=end_time))

    def get_events_by_type(self, type: str) -> AsyncIterator[Event]:
        """Events of one type, in order of position."""
        return self.events(selection=select(type=type))

    async def replay_from(self, start_event_id: Any) -> AsyncIterator[Event]:
        """The event with this id and everything behind it."""
        start = await self.find(start_event_id)
        if start is None:
            raise errors.InvalidValue(what="event id", value=str(start_event_id)[:80], must="the id of a stored event")
        async for event in self.events(after=start.position - 1):
            yield event

    async def create_snapshot(self, *, protect: bool = False) -> bytes:
        """Snapshot every registered reducer at one position; returns the id of the set."""
        return await asyncio.to_thread(state.make_all, self.store, self.reducers, protect=protect)

    async def restore_from_snapshot(self, snapshot_id: bytes) -> state.Restored:
        """The states of a set of snapshots, each checked against the log."""
        return await asyncio.to_thread(state.restore_all, self.store, self.reducers, snapshot_id)

    async def fold(
        self, reducer: Any, stream: str = "", *, until: state.Until | None = None, degraded: bool = False
    ) -> state.State:
        """The state of a stream, or of the whole log, as `tallystick.state.fold` gives it; also over a damaged log."""
        end, chosen = until or state.Until(), state.as_reducer(reducer)
        return await asyncio.to_thread(state.fold, self.store, chosen, stream, until=end, degraded=degraded)

    async def follow(self, *, after: int | str = 0, selection: Selection = EVERYTHING) -> AsyncIterator[Event]:
        """Every event after `after`, then new ones as they come, without end.

        Keep `store.cursor(event)` of the last event, and give it as `after`: a number is not checked.
        """
        after = await asyncio.to_thread(self.store.after, after)
        while True:
            page = await self.read(after=after, selection=selection)
            for event in page.events:
                yield event
            if page.through <= after:
                await self._news(after)
            after = page.through

    async def _news(self, after: int) -> None:
        """Wait for more, together with all who follow: were each to hold a thread, none would be left to read with."""
        if self._waiting is None or self._waiting.done() or after < self._waiting_after:
            self._waiting_after = after
            self._waiting = asyncio.ensure_future(asyncio.to_thread(self.store.wait, after, timeout=FOLLOW_SECONDS))
            self._waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # reading says it again
        await asyncio.wait([self._waiting])

    # --- life ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Commit what waits, then close the store."""
        self._committer.refuse()
        await asyncio.to_thread(self._committer.close)
        await asyncio.to_thread(self.store.close)

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Committer:
    """The writer thread. Tasks hand it requests; it takes all that wait and submits them as one group."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, *, window_seconds: float) -> None:
        self._store = store
        self._loop = loop
        self._window_seconds = window_seconds
        self._queue: deque[tuple[Request, asyncio.Future[list[Appended]]]] = deque()
        self._work = threading.Event()
        self._room: asyncio.Event = asyncio.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="tallystick-writer", daemon=True)
        self._thread.start()

    async def room(self) -> None:
        """Wait while too many requests are on their way."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    def hand_in(self, request: Request) -> asyncio.Future[list[Appended]]:
        """Hand in a request; the future has its outcome."""
        if self._closing:
            raise errors.StoreClosed()
        done: asyncio.Future[list[Appended]] = self._loop.create_future()
        self._queue.append((request, done))
        if not self._work.is_set():
            self._work.set()
        return done

    @property
    def waiting(self) -> int:
        """How many were handed in and not taken yet."""
        return len(self._queue)

    @property
    def is_full(self) -> bool:
        """Whether a new request has to wait for room."""
        return len(self._queue) >= PENDING_MAX

    def refuse(self) -> None:
        """Take no more. Called in the loop's thread, so that no append slips in behind the writer's last look."""
        self._closing = True
        self._work.set()

    def close(self) -> None:
        """Finish what was handed in, and stop the thread. Call `refuse` first."""
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._work.wait()
            if self._window_seconds and not self._closing:
                time.sleep(self._window_seconds)
            self._work.clear()
            while group := [self._queue.popleft() for _ in range(min(len(self._queue), GROUP_REQUESTS_MAX))]:
                self._commit(group)
            if self._closing and not self._queue:
                return

    def _commit(self, group: list[tuple[Request, asyncio.Future[list[Appended]]]]) -> None:
        outcomes: Sequence[Outcome | BaseException]
        try:
            outcomes = self._store.submit([request for request, _ in group])
        except BaseException as failure:  # the writer thread must answer every task, whatever happened
            outcomes = [errors.copy(failure) for _ in group]
        answers = list(zip([done for _, done in group], outcomes, strict=True))
        try:
            self._loop.call_soon_threadsafe(self._answer, answers)
        except RuntimeError:  # the loop was closed; nobody waits any more
            return

    def _answer(self, answers: list[tuple[asyncio.Future[list[Appended]], Any]]) -> None:
        for done, outcome in answers:
            if done.cancelled():
                continue
            if isinstance(outcome, BaseException):
                done.set_exception(outcome)
            else:
                done.set_result(outcome)
        if not self._room.is_set():
            self._room.set()
