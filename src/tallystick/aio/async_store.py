"""The async face of a store: one writer thread that commits together what many tasks append, and no logic of its own.

Appends that wait at the same time share one fsync. Each task still gets its own outcome, and gets it only when its
events are on disk. A task that is cancelled while it waits may have appended: retry with the same event ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar

from tallystick import errors, opening, state
from tallystick.aio.writer_thread import WriterThread
from tallystick.event.model import Event, NewEvent
from tallystick.store.commit import Appended
from tallystick.store.events import PAGE_EVENTS, Report
from tallystick.store.expectation import ANY, Expected
from tallystick.store.ledger import Head
from tallystick.store.maintenance import Cut
from tallystick.store.page import Hole, Page, StreamInfo
from tallystick.store.prepare import Part, Request
from tallystick.store.selection import EVERYTHING, Selection, select
from tallystick.store.store import PartProgress, Store
from tallystick.store.verify import Verification

WINDOW_MS_MAX = 10.0
FOLLOW_SECONDS = 1.0

Found = TypeVar("Found")


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
        self._committer = WriterThread(store, asyncio.get_running_loop(), window_seconds=window_ms / 1000)

    # --- writing ---------------------------------------------------------------------------------------------------

    async def append(
        self, stream: str, events: NewEvent | Sequence[NewEvent], *, expected: Expected | int = ANY
    ) -> Appended:
        """Append to one stream, all or nothing, and wait until it is on disk."""
        one = isinstance(events, NewEvent) or not isinstance(events, Iterable)  # what is no event is refused by name
        given: Any = [events] if one else list(events)  # type: ignore[arg-type]
        if self._committer.is_full:
            await self._committer.room()
        return (await self._committer.enqueue(Request([Part(stream, given, expected)])))[0]

    async def append_batch(
        self, stream: str, events: Sequence[NewEvent], *, expected: Expected | int = ANY
    ) -> Appended:
        """Append several events to one stream: `append` under the name that a batch is looked for by."""
        return await self.append(stream, events, expected=expected)

    async def append_all(
        self, parts: Iterable[tuple[str, Sequence[NewEvent], Expected | int] | Part]
    ) -> list[Appended]:
        """Append to several streams in one commit, all or nothing: (stream, events, expected) each."""
        given = [part if isinstance(part, Part) else Part(*part) for part in parts]
        if not given:
            raise errors.InvalidValue(what="parts", value=[], must="at least one (stream, events, expected)")
        if self._committer.is_full:
            await self._committer.room()
        return await self._committer.enqueue(Request(given))

    async def submit(self, request: Request) -> list[Appended]:
        """One all-or-nothing request, committed together with what else waits: for our own layers."""
        if self._committer.is_full:
            await self._committer.room()
        return await self._committer.enqueue(request)

    async def configure(self, *, secrets: str) -> None:
        """Change the secret guard of this store (`reject`, `warn`, `off`); the change is recorded as a control fact."""
        await asyncio.to_thread(self.store.configure, secrets=secrets)

    async def acquire_lease(self, stream: str, *, steal: bool = False) -> None:
        """Take the writer lease of a run now; see `Store.acquire_lease`."""
        await asyncio.to_thread(self.store.acquire_lease, stream, steal=steal)

    async def release_lease(self, stream: str) -> None:
        """Give a lease back before closing."""
        await asyncio.to_thread(self.store.release_lease, stream)

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
        over_pruned: bool = False,
    ) -> Page:
        """One page of the log in order of position; go on with `after=page.through`."""
        return await asyncio.to_thread(
            self.store.read,
            after=after,
            until=until,
            selection=selection,
            limit=limit,
            over_holes=over_holes,
            over_pruned=over_pruned,
        )

    async def read_stream(
        self, stream: str, *, after: int = 0, until: int | None = None, limit: int | None = None
    ) -> list[Event]:
        """Events of one stream with after < seq <= until: all of them, or the first `limit`."""
        return await asyncio.to_thread(self.store.read_stream, stream, after=after, until=until, limit=limit)

    def pages(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        selection: Selection = EVERYTHING,
        limit: int = PAGE_EVENTS,
        over_holes: bool = False,
        over_pruned: bool = False,
    ) -> AsyncIterator[Page]:
        """Every page up to `until`, or up to the head at the time of the call; arguments as for `read`."""
        find = partial(
            self.store.pages,
            after=after,
            until=until,
            selection=selection,
            limit=limit,
            over_holes=over_holes,
            over_pruned=over_pruned,
        )
        return _each(find)

    def events(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        selection: Selection = EVERYTHING,
        over_holes: bool = False,
        over_pruned: bool = False,
        backward: bool = False,
    ) -> AsyncIterator[Event]:
        """Every event with after < position <= `until`, or up to the head; `backward` gives the newest first."""
        find = partial(
            self.store.events,
            after=after,
            until=until,
            selection=selection,
            over_holes=over_holes,
            over_pruned=over_pruned,
            backward=backward,
        )
        return _each(find, at_once=PAGE_EVENTS)

    def stream(
        self, name: str, *, after: int = 0, until: int | None = None, backward: bool = False
    ) -> AsyncIterator[Event]:
        """Every event of one stream with after < seq <= until; `backward` gives the newest first."""
        find = partial(self.store.stream, name, after=after, until=until, backward=backward)
        return _each(find, at_once=PAGE_EVENTS)

    def stream_pages(
        self,
        name: str,
        *,
        after: int = 0,
        until: int | None = None,
        limit: int = PAGE_EVENTS,
        backward: bool = False,
    ) -> AsyncIterator[list[Event]]:
        """The events of one stream as `stream` gives them, in lists of at most `limit`."""
        find = partial(self.store.stream_pages, name, after=after, until=until, limit=limit, backward=backward)
        return _each(find)

    def consume(
        self, name: str, *, selection: Selection = EVERYTHING, batch_events: int = PAGE_EVENTS
    ) -> AsyncIterator[Page]:
        """What the consumer `name` has not handled yet, page after page; its place is saved as `Store.consume` does."""
        return _each(partial(self.store.consume, name, selection=selection, batch_events=batch_events))

    async def at(self, stream: str, seq: int) -> Event | None:
        """The event of a stream at a seq; None if the stream does not reach it."""
        return await asyncio.to_thread(self.store.at, stream, seq)

    async def last(self, stream: str) -> Event | None:
        """The newest event of a stream; None if the stream does not exist."""
        return await asyncio.to_thread(self.store.last, stream)

    async def find(self, id: Any) -> Event | None:
        """The event with this id, or None."""
        return await asyncio.to_thread(self.store.find, id)

    async def head(self) -> int:
        """The highest position that is final."""
        return await asyncio.to_thread(self.store.head)

    async def floor(self) -> int:
        """The highest position that was pruned; 0 if there is none."""
        return await asyncio.to_thread(self.store.floor)

    async def stream_head(self, stream: str) -> Head | None:
        """The end of a stream, or None if it does not exist."""
        return await asyncio.to_thread(self.store.stream_head, stream)

    async def streams(self, *, after: str = "", limit: int | None = None) -> list[StreamInfo]:
        """Streams in order of name, those after `after`: all of them, or the first `limit`."""
        return await asyncio.to_thread(self.store.streams, after=after, limit=limit)

    async def cut(self, stream: str) -> Cut | None:
        """What was pruned of a stream; None if nothing was."""
        return await asyncio.to_thread(self.store.cut, stream)

    async def holes(self) -> list[Hole]:
        """The damaged ranges that are known."""
        return await asyncio.to_thread(self.store.holes)

    async def report(self) -> Report:
        """Facts for the operator: what `tally doctor` shows."""
        return await asyncio.to_thread(self.store.report)

    async def verify(
        self, *, reducers: Iterable[Any] = (), progress: PartProgress = lambda part, done: None
    ) -> Verification:
        """Check everything, as `Store.verify` does. `progress` is called in another thread."""
        return await asyncio.to_thread(self.store.verify, reducers=reducers, progress=progress)

    async def wait(self, after: int, *, timeout: float) -> int:
        """The head, as soon as it is past `after`, or when `timeout` seconds are over."""
        return await asyncio.to_thread(self.store.wait, after, timeout=timeout)

    async def load_checkpoint(self, name: str) -> int:
        """The position a consumer may go on after: 0 if it is new."""
        return await asyncio.to_thread(self.store.load_checkpoint, name)

    async def save_checkpoint(self, name: str, position: int, *, previous: int | None = None) -> None:
        """Remember that everything up to `position` took effect; see `Store.save_checkpoint`."""
        await asyncio.to_thread(self.store.save_checkpoint, name, position, previous=previous)

    async def cursor(self, at: Event | int) -> str:
        """The place after an event, or after a position, as a text that only this history accepts."""
        return await asyncio.to_thread(self.store.cursor, at)

    async def after(self, cursor: str | int, *, over_holes: bool = False) -> int:
        """The position to read on after. A cursor of another history is `WrongStore`; a number is not checked."""
        return await asyncio.to_thread(self.store.after, cursor, over_holes=over_holes)

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


async def _each(find: Callable[[], Iterator[Found]], *, at_once: int = 1) -> AsyncIterator[Found]:
    """Iterate in threads of the pool, `at_once` items a turn."""
    found = await asyncio.to_thread(find)
    while some := await asyncio.to_thread(lambda: list(islice(found, at_once))):
        for item in some:
            yield item
