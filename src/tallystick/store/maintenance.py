"""What may happen to a log besides appending: prefixes are pruned, payloads erased, snapshots kept and dropped.

Each of these travels in a transaction together with the control fact that names it, and both become durable in one
commit or not at all. An engine applies them and judges nothing but what its ledger judges; whether a prune is covered
and wanted is for `state/` to say.
"""

from __future__ import annotations

import msgspec

from tallystick import errors
from tallystick.event.chain import GENESIS
from tallystick.store.idempotency import CommandKey
from tallystick.store.selection import Selection
from tallystick.store.snapshots import Snapshot


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A stream's history up to `through` is gone. The chain goes on from `link`; head, org and positions survive here.

    `first_position` and `last_position` are those of the first and the last event that was ever pruned of the stream,
    `count` is how many were.
    """

    stream: str
    through: int
    link: bytes
    first_position: int
    last_position: int
    count: int
    org: str | None = None


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """One event's payload is gone; envelope, checksum and link stay."""

    stream: str
    seq: int
    position: int
    id: bytes
    checksum: bytes


class Maintenance(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction does to what is stored already.

    `erased_responses` names commands whose responses go; that they took effect stays known. `dropped_rows` are
    (projection, key) whose states go in the same commit, where log and rows share a database.
    """

    cuts: tuple[Cut, ...] = ()
    erasures: tuple[Erasure, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    dropped_snapshots: tuple[bytes, ...] = ()
    erased_responses: tuple[CommandKey, ...] = ()
    dropped_rows: tuple[tuple[str, str], ...] = ()


class Reclaimed(msgspec.Struct, frozen=True):
    """What an engine gave back to the disk: what it did, in words, and the bytes before and after."""

    done: tuple[str, ...]
    bytes_before: int
    bytes_after: int


def before_cut(cut: Cut | None) -> tuple[int, bytes]:
    """The (seq, link) that the first remaining event of a stream follows."""
    return (0, GENESIS) if cut is None else (cut.through, cut.link)


def require_history(cut: Cut | None, *, after: int) -> None:
    """Refuse a read of a stream that begins in its pruned part."""
    if cut is not None and after < cut.through:
        raise errors.HistoryPruned(what=f"seqs of {cut.stream!r}", first=after + 1, last=cut.through)


def require_positions(selection: Selection, cuts: dict[str, Cut], floor: int, *, after: int) -> None:
    """Refuse a read of the log that begins below a pruned event which it might have selected.

    A reader of named streams loses nothing by what was pruned of others. `cuts` holds those of the named streams.
    """
    if not selection.streams:
        if after < floor:
            raise errors.HistoryPruned(what="positions", first=after + 1, last=floor)
        return
    for cut in cuts.values():
        if after < cut.last_position:
            raise errors.HistoryPruned(what=f"events of {cut.stream!r} at positions", first=after + 1, last=floor)
