"""The small database beside a log of files: checkpoints, view rows, dead letters. Made when it is first written to.

It is derived or replaceable and never part of the log. A read-only log may write to it too: a consumer or a projection
in another process has its own place, and SQLite lets several processes write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tallystick import errors
from tallystick.engines.tables import checkpoints, deadletters, views
from tallystick.engines.tables.lazily import LazyDatabase
from tallystick.engines.tables.owned import OwnedTables
from tallystick.event.model import Row
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.views import Inline, apart

_NOTHING = nullcontext()


class Beside:
    """The part of a log that stands beside it, and the projections that run within its commits."""

    def __init__(self, path: str) -> None:
        self._beside = LazyDatabase(path, checkpoints.SCHEMA + views.SCHEMA + deadletters.SCHEMA)
        self.checkpoints = checkpoints.SqliteCheckpoints(self._beside)
        self.views = views.SqliteViews(self._beside)
        self.view_tables = OwnedTables(self._beside)
        self.dead_letters = deadletters.SqliteDeadLetters(self._beside)
        self.inline: Inline | None = None

    def projecting(self, rows: Sequence[Row]) -> AbstractContextManager[None]:
        """Let inline projections fold what the block is about to write, and store their rows after it."""
        return _NOTHING if self.inline is None or not rows else self._projecting(self.inline, rows)

    @contextmanager
    def _projecting(self, inline: Inline, rows: Sequence[Row]) -> Iterator[None]:
        store_rows = inline.prepare(rows, self.views)
        yield
        try:
            store_rows(self.views)
        except errors.TallyError as problem:  # the events are durable all the same: a retry needs their ids
            raise errors.StoreFailed(operation="storing inline rows", reason=problem.message) from problem

    @staticmethod
    def commit_each(
        groups: Iterable[list[Transaction]], commit: Callable[[Sequence[Transaction]], list[Outcome]]
    ) -> list[Outcome]:
        """Commit group by group; what an inline projection refuses is refused alone."""
        return [outcome for group in groups for outcome in apart(commit, group)]

    def close_beside(self) -> None:
        """Give the database back."""
        self._beside.close()
