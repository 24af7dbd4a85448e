"""What may happen to a log besides appends: prefixes are pruned, payloads are erased, snapshots are stored and dropped.

Each of these is in one transaction with the control fact that names it: both become durable in one commit, or neither.
An engine applies them, and judges only what its ledger judges. `state/` decides whether a prune is covered and wanted.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tallystick import errors
from tallystick.event import tags
from tallystick.event.chain import GENESIS
from tallystick.event.model import Event
from tallystick.store.idempotency import CommandKey
from tallystick.store.selection import Selection
from tallystick.store.snapshots import Snapshot


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The events of a stream up to `through` are gone. The chain continues from `link`.

    `first_position` and `last_position` are those of the first and the last pruned event of the stream, and `count` is
    the number of its pruned events.
    """

    stream: str
    through: int
    link: bytes
    first_position: int
    last_position: int
    count: int
    org: str | None = None


class PrunedEvent(NamedTuple):
    """What a prune keeps of an event: its id, so that it is not recorded again, and what queries ask of it.

    `type` is None if an earlier version pruned it. Such an event has no tags.
    """

    position: int
    id: bytes
    type: str | None = None
    org: str | None = None
    tags: tuple[str, ...] = ()


def kept_of(event: Event) -> PrunedEvent:
    """What a prune keeps of an event."""
    asked = tags.tagged(event.meta)
    return PrunedEvent(event.position, event.id, event.type, asked.org, asked.tags)


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of one event is gone; envelope, checksum and link stay."""

    stream: str
    seq: int
    position: int
    id: bytes
    checksum: bytes


class Maintenance(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction changes in the stored log.

    `erased_responses` names commands whose responses are erased; the record that they took effect stays. `dropped_rows`
    are (projection, key) whose states are dropped in the same commit, if log and rows share a database.
    """

    cuts: tuple[Cut, ...] = ()
    erasures: tuple[Erasure, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    dropped_snapshots: tuple[bytes, ...] = ()
    erased_responses: tuple[CommandKey, ...] = ()
    dropped_rows: tuple[tuple[str, str], ...] = ()


class Reclaimed(msgspec.Struct, frozen=True):
    """What an engine gave back to the disk: a description of each step, and the bytes before and after."""

    done: tuple[str, ...]
    bytes_before: int
    bytes_after: int


def before_cut(cut: Cut | None) -> tuple[int, bytes]:
    """The (seq, link) that the first remaining event of a stream follows."""
    return (0, GENESIS) if cut is None else (cut.through, cut.link)


def require_history(cut: Cut | None, *, after: int) -> None:
    """Refuse a read of a stream that starts in its pruned part."""
    if cut is not None and after < cut.through:
        raise errors.HistoryPruned(what=f"seqs of {cut.stream!r}", first=after + 1, last=cut.through)


def require_positions(selection: Selection, cuts: dict[str, Cut], floor: int, *, after: int) -> None:
    """Refuse a read of the log that starts before a pruned event that it might have selected.

    A reader of named streams does not miss pruned events of others. `cuts` are those of the named streams.
    """
    if not selection.streams:
        if after < floor:
            raise errors.HistoryPruned(what="positions", first=after + 1, last=floor)
        return
    for cut in cuts.values():
        if after < cut.last_position:
            raise errors.HistoryPruned(what=f"events of {cut.stream!r} at positions", first=after + 1, last=floor)
