"""Group commit for threads: callers that wait for the same lock are committed together, by the one that gets it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from tallystick import errors
from tallystick.store.commit import Outcome, Transaction


class _Queued:
    """A caller's transactions on their way through a commit that may be shared."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        self.transactions = transactions
        self.outcomes: list[Outcome] | None = None
        self.failure: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.outcomes is not None or self.failure is not None


class Combiner:
    """Turns commits of many threads into fewer, larger ones. `lock` is held while `commit` runs."""

    def __init__(self, commit: Callable[[list[Transaction]], list[Outcome]]) -> None:
        self._commit = commit
        self._queue: deque[_Queued] = deque()
        self.lock = threading.RLock()

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """The outcomes of these transactions, once the commit that holds them is done."""
        mine = _Queued(transactions)
        self._queue.append(mine)
        with self.lock:
            if not mine.done:
                self._commit_queue()
        if mine.failure is not None:
            raise mine.failure
        assert mine.outcomes is not None
        return mine.outcomes

    def _commit_queue(self) -> None:
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        try:
            outcomes = self._commit([item for queued in batch for item in queued.transactions])
        except BaseException as problem:
            for queued in batch:
                queued.failure = errors.copy(problem)  # each thread raises its own
            return
        at = 0
        for queued in batch:
            queued.outcomes = outcomes[at : at + len(queued.transactions)]
            at += len(queued.transactions)
