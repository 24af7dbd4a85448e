"""The input and the result of an engine's commit.

A transaction is all or nothing. A commit takes several transactions, judges each on its own, and makes those that pass
durable with one fsync. This is group commit, and every append goes through it.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tallystick.errors import TallyError
from tallystick.event.model import Draft
from tallystick.store.expectation import Expected
from tallystick.store.idempotency import CommandRecord
from tallystick.store.leases import LEASED_KIND
from tallystick.store.maintenance import Maintenance
from tallystick.store.query import Condition

_LEASED = LEASED_KIND + "/"


class SourceMark(msgspec.Struct, frozen=True):
    """The number of one draft in the sequence of its source; None means that the commit assigns it.

    A source has one sequence per org that its events name; `org` is empty if the event names no org.
    """

    index: int
    org: str
    source: str
    seq: int | None

    @property
    def key(self) -> tuple[str, str]:
        """The source within its org: the key of a sequence."""
        return (self.org, self.source)


class Write(msgspec.Struct):
    """The part of a transaction that goes to one stream, validated and encoded.

    `filled` are the meta keys that the appender filled in, by index: a retry may fill in other values there.
    `after_link` requires that the stream ends with this link: events that were signed elsewhere must fit here.
    """

    stream: str
    drafts: list[Draft]
    expected: Expected
    orgs: frozenset[str] = frozenset()
    sources: tuple[SourceMark, ...] = ()
    ids_given: bool = False
    filled: dict[int, tuple[str, ...]] = {}
    times_given: frozenset[int] = frozenset()
    after_link: bytes | None = None

    @property
    def is_leased(self) -> bool:
        """Whether only the holder of a lease may write the stream."""
        return self.stream.startswith(_LEASED)


class Transaction(msgspec.Struct):
    """Writes that commit together or not at all, and what else happens with them.

    `require` lists streams that must still end at a seq, whether they are written or not. `unless` is a condition: it
    fails if more events match than its writer has seen. `command` is recorded with
    the writes; if it is recorded already, the transaction is refused. `maintenance` changes what is stored, as a
    control fact in the writes says.
    """

    writes: list[Write]
    acquire: tuple[str, ...] = ()
    steal: bool = False
    release: tuple[str, ...] = ()
    require: tuple[tuple[str, int], ...] = ()
    command: CommandRecord | None = None
    maintenance: Maintenance | None = None
    unless: Condition | None = None


class Appended(msgspec.Struct, frozen=True):
    """The place of a write. `stored` counts the events that were stored already (a retry) and not written again."""

    stream: str
    first_seq: int
    last_seq: int
    first_position: int
    last_position: int
    link: bytes
    stored: int = 0

    @property
    def seq(self) -> int:
        """The seq of the stream after this write."""
        return self.last_seq

    @property
    def position(self) -> int:
        """The position of the last event of this write."""
        return self.last_position


Outcome: TypeAlias = "list[Appended] | TallyError"
"""The result of one transaction."""

__all__ = ["Appended", "Outcome", "SourceMark", "TallyError", "Transaction", "Write"]
