"""The question of a log that lives in an SQL server, for callers that have a faster way to the server.

The question is complete: the values are quoted in it, and the statements before it set the session up, so that the
answer is the one that the log itself would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from tallystick.store.page import Page
from tallystick.store.selection import Selection


class SessionQuery(msgspec.Struct, frozen=True):
    """Statements for a new session: `before` sets it up, `query` returns the columns that were named, in order.

    The answer is empty if the log would refuse with `HistoryPruned`. A caller that gets nothing asks the log why.
    """

    before: tuple[str, ...]
    query: str


@runtime_checkable
class SqlServerLog(Protocol):
    """What a log offers in addition to the port if it lives in a server.

    `url` has no password and can be shown. `address` has it, and is only for opening the log elsewhere.
    """

    url: str
    address: str

    def read(self, *, after: int, until: int, limit: int, over_pruned: bool) -> Page:
        """As in the port."""

    def session_query(
        self, columns: Sequence[str], *, selection: Selection, after: int, until: int, over_pruned: bool
    ) -> SessionQuery:
        """The question for these columns of the events with after < position <= until. `until` must be final."""
