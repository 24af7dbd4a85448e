"""The API for asyncio: a store whose methods are coroutines. One writer thread commits the appends of many tasks.

Appends that wait at the same time share one fsync. Each task still gets its own outcome, and gets it only when its
events are on disk. A task that is cancelled while it waits may have appended: retry with the same event ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import wraps
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from tallystick import errors, opening, state
from tallystick.aio.writer_thread import WriterThread
from tallystick.event.model import Appendable, Event
from tallystick.store import new_events
from tallystick.store.commit import Appended
from tallystick.store.events import PAGE_EVENTS
from tallystick.store.expectation import ANY, Expected
from tallystick.store.prepare import Part, Request
from tallystick.store.selection import EVERYTHING, Selection, select
from tallystick.store.store import Store

WINDOW_MS_MAX = 10.0
FOLLOW_SECONDS = 1.0

P = ParamSpec("P")
Found = TypeVar("Found")


async def open(url: str, *, window_ms: float = 0.0, reducers: Iterable[Any] = (), **options: Any) -> AsyncStore:
    """Open the store at `url` for the running event loop; options as in `tallystick.open`.

    `window_ms` (up to 10) delays each commit so that more appends can share its fsync. By default no commit is delayed:
    appends that arrive during one fsync share the next. `reducers` are those that `create_snapshot` snapshots.
    """
    _check_window(window_ms)
    registered = state.registry(reducers)
    store = await asyncio.to_thread(opening.open, url, **options)
    return AsyncStore(store, window_ms=window_ms, reducers=registered)


def _check_window(window_ms: object) -> None:
    if type(window_ms) not in (int, float) or not 0 <= window_ms <= WINDOW_MS_MAX:  # type: ignore[operator]
        raise errors.InvalidValue(what="window_ms", value=window_ms, must=f"from 0 to {WINDOW_MS_MAX:g}")


def _in_thread(
    method: Callable[Concatenate[Store, P], Found],
) -> Callable[Concatenate[AsyncStore, P], Coroutine[Any, Any, Found]]:
    """A method of `Store` as a coroutine that runs it in a thread of the pool."""

    @wraps(method)
    async def call(self: AsyncStore, /, *positional: P.args, **named: P.kwargs) -> Found:
        found: Found = await asyncio.to_thread(getattr(self.store, method.__name__), *positional, **named)
        return found

    return call


def _each(
    method: Callable[Concatenate[Store, P], Iterator[Found]], *, at_once: int = 1
) -> Callable[Concatenate[AsyncStore, P], AsyncIterator[Found]]:
    """A method of `Store` that iterates, as one that does so in threads of the pool, `at_once` items at a time."""

    @wraps(method)
    async def call(self: AsyncStore, /, *positional: P.args, **named: P.kwargs) -> AsyncIterator[Found]:
        found = await asyncio.to_thread(getattr(self.store, method.__name__), *positional, **named)
        while some := await asyncio.to_thread(lambda: list(islice(found, at_once))):
            for item in some:
                yield item

    return call


class AsyncStore:
    """An open store, for the tasks of one event loop. Methods without a description are those of `Store`."""

    def __init__(self, store: Store, *, window_ms: float = 0.0, reducers: Iterable[Any] = ()) -> None:
        _check_window(window_ms)
        self.store = store
        self.reducers = state.registry(reducers)
        self._waiting: asyncio.Future[int] | None = None
        self._waiting_after = 0
        self._committer = WriterThread(store, asyncio.get_running_loop(), window_seconds=window_ms / 1000)

    # --- writing ---------------------------------------------------------------------------------------------------

    async def append(
        self, stream: str, events: Appendable | Sequence[Appendable], *, expected: Expected | int = ANY
    ) -> Appended:
        """Append to one stream, all or nothing, and wait until it is on disk."""
        given = new_events.listed(events)
        if self._committer.is_full:
            await self._committer.room()
        return (await self._committer.enqueue(Request([Part(stream, given, expected)])))[0]

    async def append_batch(
        self, stream: str, events: Sequence[Appendable], *, expected: Expected | int = ANY
    ) -> Appended:
        """Append several events to one stream: `append` under the name that one expects for a batch."""
        return await self.append(stream, events, expected=expected)

    async def append_all(
        self, parts: Iterable[tuple[str, Sequence[Appendable], Expected | int] | Part]
    ) -> list[Appended]:
        """Append to several streams in one commit, all or nothing: (stream, events, expected) each."""
        given = [part if isinstance(part, Part) else Part(*part) for part in parts]
        if not given:
            raise errors.InvalidValue(what="parts", value=[], must="at least one (stream, events, expected)")
        return await self.submit(Request(given))

    async def submit(self, request: Request) -> list[Appended]:
        """Append one request, all or nothing, in one commit with others that wait: for our own layers."""
        if self._committer.is_full:
            await self._committer.room()
        return await self._committer.enqueue(request)

    configure = _in_thread(Store.configure)
    acquire_lease = _in_thread(Store.acquire_lease)
    release_lease = _in_thread(Store.release_lease)

    @property
    def waiting(self) -> int:
        """How many requests wait for the writer thread to take them."""
        return self._committer.waiting

    # --- reading ---------------------------------------------------------------------------------------------------

    read = _in_thread(Store.read)
    read_stream = _in_thread(Store.read_stream)
    pages = _each(Store.pages)
    events = _each(Store.events, at_once=PAGE_EVENTS)
    stream = _each(Store.stream, at_once=PAGE_EVENTS)
    stream_pages = _each(Store.stream_pages)
    consume = _each(Store.consume)
    at = _in_thread(Store.at)
    last = _in_thread(Store.last)
    find = _in_thread(Store.find)
    head = _in_thread(Store.head)
    floor = _in_thread(Store.floor)
    stream_head = _in_thread(Store.stream_head)
    streams = _in_thread(Store.streams)
    cut = _in_thread(Store.cut)
    holes = _in_thread(Store.holes)
    report = _in_thread(Store.report)
    verify = _in_thread(Store.verify)
    wait = _in_thread(Store.wait)
    load_checkpoint = _in_thread(Store.load_checkpoint)
    save_checkpoint = _in_thread(Store.save_checkpoint)
    cursor = _in_thread(Store.cursor)
    after = _in_thread(Store.after)

    def get_events(self, start_time: int, end_time: int) -> AsyncIterator[Event]:
        """Events whose time is in [start_time, end_time), in ns, in order of position."""
        return self.events(selection=select(time_from=start_time, time_until=end_time))

    def get_events_by_type(self, type: str) -> AsyncIterator[Event]:
        """Events of one type, in order of position."""
        return self.events(selection=select(type=type))

    async def replay_from(self, start_event_id: Any) -> AsyncIterator[Event]:
        """The event with this id and everything after it."""
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
        """Every event after `after`, then new ones as they are appended, without end.

        To continue later, save `store.cursor(event)` of the last event and pass it as `after`: a number is not checked.
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
        """Wait for more events, in one thread for all followers: with one each, no thread would be left to read."""
        if self._waiting is None or self._waiting.done() or after < self._waiting_after:
            self._waiting_after = after
            self._waiting = asyncio.ensure_future(asyncio.to_thread(self.store.wait, after, timeout=FOLLOW_SECONDS))
            self._waiting.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # the next read raises it
        await asyncio.wait([self._waiting])

    # --- life ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Commit the waiting appends, then close the store."""
        self._committer.refuse()
        await asyncio.to_thread(self._committer.close)
        await asyncio.to_thread(self.store.close)

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
