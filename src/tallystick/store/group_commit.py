"""Group commit for threads: the caller that gets the lock commits for all callers that wait for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from tallystick import errors
from tallystick.event import limits
from tallystick.event.model import InDraft
from tallystick.store.commit import Outcome, Transaction


class _Queued:
    """The transactions of one caller, on their way through a commit that may be shared."""

    __slots__ = ("failure", "outcomes", "transactions")

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        self.transactions = transactions
        self.outcomes: list[Outcome] | None = None
        self.failure: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.outcomes is not None or self.failure is not None


class Combiner:
    """Joins the commits of many threads into fewer, larger ones. `lock` is held while `commit` runs."""

    def __init__(self, commit: Callable[[list[Transaction]], list[Outcome]]) -> None:
        self._commit = commit
        self._queue: deque[_Queued] = deque()
        self._committing: int | None = None
        self.lock = threading.RLock()

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """The outcomes of these transactions, once the commit that holds them is done."""
        if self._committing == threading.get_ident():
            raise errors.Nested()
        mine = _Queued(transactions)
        self._queue.append(mine)
        with self.lock:
            if not mine.done:
                self._commit_queue(mine)
        if mine.failure is not None:
            raise mine.failure
        assert mine.outcomes is not None
        return mine.outcomes

    def _commit_queue(self, mine: _Queued) -> None:
        batch = [mine]  # whatever interrupts this, every caller in the batch gets an answer
        try:
            self._committing = threading.get_ident()
            while self._queue:
                queued = self._queue[0]
                if queued is not mine and not queued.done:
                    batch.append(queued)
                self._queue.popleft()
            if len(batch) == 1:
                mine.outcomes = self._commit(list(mine.transactions))
                return
            outcomes = iter(self._commit([item for queued in batch for item in queued.transactions]))
            for queued in batch:
                queued.outcomes = list(islice(outcomes, len(queued.transactions)))
        except BaseException as problem:
            for queued in batch:
                if not queued.done:
                    queued.failure = _failure(queued is mine, problem)
        finally:
            self._committing = None


def by_bytes(transactions: list[Transaction], bytes_max: int = limits.COMMIT_BYTES_MAX) -> Iterator[list[Transaction]]:
    """The transactions in groups that are small enough to be written at once. A single transaction always is."""
    if len(transactions) == 1 or _count(transactions) * limits.EVENT_BYTES_MAX <= bytes_max:
        yield transactions
        return
    group: list[Transaction] = []
    size = 0
    for transaction in transactions:
        own = sum(
            len(draft[InDraft.payload]) + len(draft[InDraft.meta])
            for write in transaction.writes
            for draft in write.drafts
        )
        if group and size + own > bytes_max:
            yield group
            group, size = [], 0
        group.append(transaction)
        size += own
    if group:
        yield group


def _count(transactions: list[Transaction]) -> int:
    return sum([len(write.drafts) for transaction in transactions for write in transaction.writes])


def commit_each(
    groups: Iterable[Sequence[Transaction]], commit: Callable[[Sequence[Transaction]], list[Outcome]]
) -> list[Outcome]:
    """Commit group after group. If there are several, what fails one group is the outcome of that group only.

    The groups before it are durable, and those after it may be: their callers must not be told otherwise.
    """
    every = list(groups)
    if len(every) == 1:
        return commit(every[0])
    outcomes: list[Outcome] = []
    for group in every:
        try:
            outcomes += commit(group)
        except errors.TallyError as problem:
            outcomes += [errors.copy(problem) for _ in group]
    return outcomes


def commit_or_split(
    commit: Callable[[Sequence[Transaction]], list[Outcome]], transactions: Sequence[Transaction]
) -> list[Outcome]:
    """Commit a group. If it is refused because of its content, as by an inline projection or an upcaster, commit its
    halves separately, and so on, until only the bad transaction is refused.
    """
    try:
        return commit(transactions)
    except (errors.Refused, errors.InvalidInput) as refusal:
        if len(transactions) == 1:
            return [refusal]
    return commit_each(halves(transactions), partial(commit_or_split, commit))


def in_groups(
    commit: Callable[[Sequence[Transaction]], list[Outcome]], transactions: list[Transaction]
) -> list[Outcome]:
    """Commit in groups that are small enough to be written at once. In each, only bad transactions are refused."""
    return commit_each(by_bytes(transactions), partial(commit_or_split, commit))


def halves(transactions: Sequence[Transaction]) -> list[Sequence[Transaction]]:
    """Both halves of a group. Few commits find one bad transaction among many, so it costs the others little."""
    middle = len(transactions) // 2
    return [transactions[:middle], transactions[middle:]]


def _failure(own: bool, problem: BaseException) -> BaseException:
    """What a thread raises: its own exception, or, if another thread was interrupted, that the outcome is unknown."""
    if own or isinstance(problem, errors.TallyError):
        return errors.copy(problem)
    return errors.StoreFailed(operation="a shared commit", reason=f"it was interrupted: {problem!r}")
