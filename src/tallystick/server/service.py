"""One service: an open store, and everything that the handlers need for it.

Its life: `start` (the loop runs, nothing is served yet), `drain` (new requests are refused, followers are disconnected,
accepted requests continue), `stop` (all accepted requests are answered; commit what waits, and close the store).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from tallystick import errors, opening, state
from tallystick.aio import AsyncStore
from tallystick.event import names
from tallystick.projections import Live, TableProjection, TableRunner
from tallystick.server.access import NoTokens, TokenBook
from tallystick.server.cache import Bookmarks, SecretResponses
from tallystick.server.gate import Gate
from tallystick.server.merge import merge
from tallystick.server.metrics import Metrics
from tallystick.server.operations import Operations
from tallystick.server.settings import Settings
from tallystick.server.tail import LogTail
from tallystick.server.threads import Threads
from tallystick.server.tokens import Tokens
from tallystick.server.visibility import Visibility
from tallystick.state.archive import Archive
from tallystick.store.idempotency import CommandKey
from tallystick.store.store import Store

THREADS = 16

Result = TypeVar("Result")


class Service:
    """What one process serves."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        tokens: TokenBook | None = None,
        reducers: Iterable[Any] = (),
        projections: Iterable[Any] = (),
        archive: Callable[[Store], Archive] | None = None,
    ) -> None:
        """With `archive`, which opens the archive of a store as it is at that moment, only what it holds is pruned."""
        limits = settings.limits
        self.store = store
        for kind in settings.infrastructure:  # so that such a stream needs no org, and no tenant sees it
            store.catalog.declare_kind(kind, tenant=False)
        self.settings = settings
        self.limits = limits
        self.tokens: TokenBook = tokens or NoTokens()
        self.metrics = Metrics()
        self.own_reducers = state.registry(reducers)
        self.reducers = {item.name: item for item in state.registry([*self.own_reducers, merge])}
        self.projections = {item.name: item for item in projections}
        self.open_archive = None if archive is None else partial(archive, store)
        if self.open_archive is not None:
            self.open_archive()  # refuse one that is not an archive of this log before anything listens
        self.failures: dict[str, str] = {}  # projection -> why its runner stopped
        self.not_refilled = ""
        self.draining = False
        self._always_token = settings.require_token or not settings.is_loopback
        self.appends = Gate("appends", count_max=limits.pending_requests_max, bytes_max=limits.pending_bytes_max)
        self.reads = Gate("reads", count_max=limits.reads_max, bytes_max=limits.reads_bytes_max)
        self.followers = Gate("followers", count_max=limits.followers_max, bytes_max=limits.followers_bytes_max)
        self.waits = Gate("waits", count_max=limits.waiters_max)
        self.turns: WeakValueDictionary[CommandKey, asyncio.Lock] = (
            WeakValueDictionary()
        )  # one request per key at a time
        self.secrets = SecretResponses()
        self.bookmarks = Bookmarks()
        self.visibility = Visibility(store)
        self.tail = LogTail(self)
        self._log: AsyncStore | None = None
        self._threads = Threads(THREADS)
        self._stopping = threading.Event()
        self._runners: list[threading.Thread] = []
        self.operations = Operations(self)

    def archive(self) -> Archive | None:
        """The archive as it is now, if there is one."""
        return None if self.open_archive is None else self.open_archive()

    @property
    def log(self) -> AsyncStore:
        """The store for coroutines, once the service has started."""
        if self._log is None:
            raise errors.StoreClosed()
        return self._log

    @property
    def needs_token(self) -> bool:
        """Whether a request must have a token."""
        return self._always_token or self.tokens.required

    @property
    def is_readonly(self) -> bool:
        """Whether nothing can be appended: the store was opened for reading, or it is damaged."""
        return self.store.log.readonly or bool(self.store.holes())

    async def run(self, function: Callable[..., Result], *args: Any, **options: Any) -> Result:
        """Call a function that reads, in a thread. The number of reads is bounded."""
        with self.reads.enter():
            return await self.in_thread(function, *args, **options)

    async def in_thread(self, function: Callable[..., Result], *args: Any, **options: Any) -> Result:
        """Call a function in a thread of the service."""
        return await self._threads.run(lambda: function(*args, **options))

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the writer thread, the runners of projections, and the scheduler."""
        self.operations.start()
        self._log = AsyncStore(self.store, window_ms=self.settings.window_ms)
        for name in self.projections:
            self.run_projection(name)

    def run_projection(self, name: str) -> None:
        """Keep the rows of a projection current from now on. A runner that had failed is started again."""
        if self._stopping.is_set():
            return
        self.failures.pop(name, None)
        given = (self.projections[name],)
        runner = threading.Thread(target=self._follow, args=given, name=f"tallystick-{name}", daemon=True)
        runner.start()
        self._runners.append(runner)

    def _follow(self, projection: Any) -> None:
        """Keep the rows of a projection current until the service stops. If it fails, keep the reason."""
        try:
            runner = (TableRunner if isinstance(projection, TableProjection) else Live)(self.store, projection)
            runner.follow(stopped=self._stopping.is_set)
        except Exception as problem:  # user code may raise anything; the service continues without these rows
            self.failures[projection.name] = str(problem)

    def drain(self) -> None:
        """Refuse new requests, and disconnect the followers. Call it in the thread of the loop."""
        self.draining = True
        self.tail.close()

    async def stop(self) -> None:
        """Commit everything that was submitted, and close the store."""
        self.drain()
        self._stopping.set()
        await self.tail.stop()
        for runner in self._runners:
            await asyncio.to_thread(runner.join)
        await self.operations.stop()
        if self._log is not None:
            await self._log.close()
        self._threads.close()


def open_service(settings: Settings, *, catalog: Any = None, **parts: Any) -> Service:
    """The service for these settings, with its store opened. If another process writes the store, use `readonly`."""
    options: dict[str, Any] = {}
    if settings.infrastructure and settings.url.startswith(("postgres:", "postgresql:")):
        options["infrastructure"] = settings.infrastructure
    for kind in settings.infrastructure:
        names.check_kind(kind)
    store, not_refilled = _opened(settings, catalog=catalog, **options)
    try:
        service = Service(store, settings, **{"tokens": Tokens(store)} | parts)
        service.not_refilled = not_refilled
        return service
    except BaseException:
        store.close()
        raise


def _opened(settings: Settings, **options: Any) -> tuple[Store, str]:
    """The store, refilled if the settings ask for it; otherwise as it is, and why it could not be refilled."""
    wanted, why = settings.refill_from, ""
    if wanted is not None and settings.readonly:
        wanted, why = None, "the store is opened for reading only"
    try:
        return opening.open(settings.url, readonly=settings.readonly, refill_from=wanted, **options), why
    except errors.TallyError as problem:
        if wanted is None:
            raise
        why = problem.message
    return opening.open(settings.url, readonly=settings.readonly, **options), why
