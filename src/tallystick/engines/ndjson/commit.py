"""A commit: the transactions of each stream are judged and written together, under the lock of that stream.

Order: lock, recovery, judgement, lease, lines, sync, mark, unlock. The lock is held only during a commit. Between two
commits the lease says who may write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from tallystick import errors
from tallystick.engines.ndjson import paths
from tallystick.engines.ndjson.index import SEQ_BITS
from tallystick.engines.ndjson.registry import Registry
from tallystick.engines.ndjson.stream_log import StreamLog
from tallystick.event.model import Event
from tallystick.store import capabilities, leases
from tallystick.store.backoff import Backoff
from tallystick.store.capabilities import ANY_STREAM, COMMANDS, MAINTENANCE, MULTI_STREAM
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.damage import KeptDamage
from tallystick.store.events import Problem
from tallystick.store.filesystem import FULL, FileSystem
from tallystick.store.group_commit import by_bytes, commit_each
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.ledger import Head, Holder, Ledger
from tallystick.store.maintenance import Cut
from tallystick.store.query import Condition

LOCK = "lock"


class _StreamView:
    """What the ledger asks about one stream. `log` is None if the stream does not exist yet."""

    def __init__(self, log: StreamLog | None) -> None:
        self._log = log

    def stream_head(self, stream: str) -> Head | None:
        return self._log.head if self._log else None

    def find(self, id: bytes) -> Event | None:
        return self._log.find(id) if self._log else None

    def source_head(self, org: str, source: str) -> int:
        return self._log.index.sources.get((org, source), 0) if self._log else 0

    def lease(self, stream: str) -> leases.Lease | None:
        return self._log.leases.latest() if self._log else None

    def cut(self, stream: str) -> Cut | None:
        return None

    def pruned(self, id: bytes) -> bool:
        return False

    def command(self, key: CommandKey) -> CommandRecord | None:
        return None

    def matches(self, condition: Condition, *, limit: int) -> list[int]:
        raise errors.UnsupportedCapability(engine="ndjson", capability=capabilities.CONDITIONS)


class RunCommitter:
    """Commits for one handle."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        registry: Registry,
        holder: Holder,
        log_of: Callable[[str], StreamLog | None],
        clock: Callable[[], int],
        *,
        busy_ms: int,
        damage: KeptDamage,
    ) -> None:
        self._files = files
        self._directory = directory
        self._registry = registry
        self._holder = holder
        self._log_of = log_of
        self._clock = clock
        self._busy_ms = busy_ms
        self._damage = damage

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """The outcome of each transaction. A failure in one stream affects only its own transactions."""
        outcomes: dict[int, Outcome] = {}
        streams: dict[str, list[int]] = {}
        for number, transaction in enumerate(transactions):
            try:
                streams.setdefault(_only_stream(transaction), []).append(number)
            except errors.TallyError as refusal:
                outcomes[number] = refusal
        for stream, numbers in streams.items():
            try:
                done = self._commit_stream(stream, [transactions[number] for number in numbers])
            except errors.TallyError as failure:
                if len(streams) == 1 and not outcomes:
                    raise
                done = [failure] * len(numbers)
            outcomes |= dict(zip(numbers, done, strict=True))
        return [outcomes[number] for number in range(len(transactions))]

    def _commit_stream(self, stream: str, transactions: list[Transaction]) -> list[Outcome]:
        if self._known(stream) is None:
            refused = self._create(stream, transactions)
            if refused is not None:
                return refused
        log = self._known(stream)
        assert log is not None
        number = log.index.number
        self._damage.require_none(lambda problem: _concerns(problem, stream, number))
        with locked(self._files, log.directory, busy_ms=self._busy_ms):
            log.prepare(clock=self._clock)
            return commit_each(by_bytes(transactions), lambda group: self._write(log, group))

    def _known(self, stream: str) -> StreamLog | None:
        with _translated("reading the list of streams", self._directory):
            return self._log_of(stream)

    def _create(self, stream: str, transactions: list[Transaction]) -> list[Outcome] | None:
        """Create a stream. If every transaction is refused, create nothing and return the refusals."""
        with locked(self._files, self._directory, busy_ms=self._busy_ms):
            if self._known(stream) is not None:
                return None
            ledger = Ledger(_StreamView(None), next_position=1, holder=self._holder)
            outcomes = ledger.judge_each(transactions)
            if not ledger.rows and not ledger.leases:
                return outcomes
            with _translated("creating a stream", self._directory):
                self._files.make_dir(f"{self._directory}/{paths.path_of(stream)}")
                self._registry.add(stream)
            return None

    def _write(self, log: StreamLog, transactions: Sequence[Transaction]) -> list[Outcome]:
        next_position = log.index.position(log.index.seq + 1)
        ledger = Ledger(_StreamView(log), next_position=next_position, holder=self._holder)
        try:
            outcomes = ledger.judge_each(transactions)
            for lease in ledger.leases:
                log.put_lease(lease)
            if ledger.rows:
                log.write(ledger.rows, recorded=self._clock())
            ledger.committed()
        except errors.TallyError:
            raise
        except OSError as problem:
            raise log.poison("a commit", problem) from problem
        except BaseException as interruption:  # Ctrl-C in the middle: recovery decides what counts
            log.poison("an interrupted append", interruption)
            raise
        return outcomes

    def settle(self, log: StreamLog) -> None:
        """Recover a log that was not closed. Leave it alone if somebody is committing to it now."""
        try:
            with locked(self._files, log.directory, busy_ms=0):
                with suppress(errors.Damaged):  # a reader or writer of the range gets the error
                    log.prepare(clock=self._clock)
                if log.stream not in self._holder.held:
                    log.close()
        except errors.Busy:
            return

    def release(self) -> None:
        """Release every lease."""
        for stream in list(self._holder.held):
            self.commit([Transaction([], release=(stream,))])


@contextmanager
def locked(files: FileSystem, directory: str, *, busy_ms: int) -> Iterator[None]:
    """Hold the lock of a directory. Wait for it at most `busy_ms`."""
    until, backoff = time.monotonic() + busy_ms / 1000, Backoff("locked run", tries_max=None)
    while True:
        try:
            with _translated("lock", directory):
                lock = files.lock(f"{directory}/{LOCK}")
            break
        except errors.StoreLocked:
            if time.monotonic() > until:
                raise errors.Busy(waited_ms=busy_ms) from None
            backoff.pause()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _translated(operation: str, directory: str) -> Iterator[None]:
    """Translate failures outside of a stream's own log. Nothing was promised yet, so nothing is poisoned."""
    try:
        yield
    except OSError as problem:
        if problem.errno in FULL:
            raise errors.NoSpace(needed=0, path=directory) from problem
        raise errors.StoreFailed(operation=operation, reason=str(problem)) from problem


def _concerns(problem: Problem, stream: str, number: int) -> bool:
    """Whether damage on record stops appends to this stream: it is in the stream, or it names no stream."""
    if problem.stream:
        return problem.stream == stream
    return not problem.position or problem.position >> SEQ_BITS == number


def _only_stream(transaction: Transaction) -> str:
    """The only stream of a transaction. Refuse what this engine does not offer, by the name of the capability."""
    streams = {write.stream for write in transaction.writes} | {*transaction.acquire, *transaction.release}
    streams |= {stream for stream, _ in transaction.require}
    lacking = {
        MAINTENANCE: transaction.maintenance is not None,
        COMMANDS: transaction.command is not None,
        MULTI_STREAM: len(streams) != 1,
        ANY_STREAM: not all(map(paths.is_kept, streams)),
    }
    for capability, is_needed in lacking.items():
        if is_needed:
            raise errors.UnsupportedCapability(engine="ndjson", capability=capability)
    return streams.pop()
