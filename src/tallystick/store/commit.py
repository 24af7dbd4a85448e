"""What goes into an engine's commit, and what comes out.

A transaction is all or nothing. A commit takes several transactions, judges each on its own, and makes those that
passed durable with one fsync: that is group commit, and there is no other path.
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

_LEASED = LEASED_KIND + "/"


class SourceMark(msgspec.Struct, frozen=True):
    """One draft's place in the sequence of its source; `seq` None means: assign it in the commit.

    A source counts once for each org that its events name; `org` is empty if the event names none.
    """

    index: int
    org: str
    source: str
    seq: int | None

    @property
    def key(self) -> tuple[str, str]:
        """What has a sequence: the source within its org."""
        return (self.org, self.source)


class Write(msgspec.Struct):
    """The part of a transaction that goes to one stream, validated and encoded.

    `filled` names by index the meta keys that the appender filled in: a retry may fill in something else there.
    `after_link` demands that the stream ends with this link: what was signed elsewhere must come out the same here.
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
        """Whether only the holder of the stream's lease may write it."""
        return self.stream.startswith(_LEASED)


class Transaction(msgspec.Struct):
    """Writes that commit together or not at all, and what else happens with them.

    `require` names streams that must still end at a seq, written to or not. `command` is recorded with the writes, and
    refuses the whole if it is recorded already. `maintenance` changes what is stored; a control fact names it.
    """

    writes: list[Write]
    acquire: tuple[str, ...] = ()
    steal: bool = False
    release: tuple[str, ...] = ()
    require: tuple[tuple[str, int], ...] = ()
    command: CommandRecord | None = None
    maintenance: Maintenance | None = None


class Appended(msgspec.Struct, frozen=True):
    """Where a write ended up. `stored` counts the events that were there already (a retry): they were not written."""

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
"""What became of one transaction."""

__all__ = ["Appended", "Outcome", "SourceMark", "TallyError", "Transaction", "Write"]
