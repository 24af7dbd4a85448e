"""Whether lines of an export will become what they claim (seq, checksum, link), worked out before they are written."""

from __future__ import annotations

from collections.abc import Sequence

from tallystick.event import chain, guard
from tallystick.event.model import Draft, InDraft, InRow
from tallystick.moving.entry import BrokenClaim, Line
from tallystick.store.commit import Transaction
from tallystick.store.ledger import NO_HEAD, Head
from tallystick.store.prepare import Part, Preparer, Request
from tallystick.store.store import Store


def check(store: Store, lines: Sequence[Line]) -> None:
    """Raise `BrokenClaim` for the first line that the store would turn into something else than it claims."""
    heads: dict[str, Head] = {}
    for line, draft in zip(lines, _drafts(store, lines), strict=True):
        if line.checksum is not None and draft[InDraft.checksum] != line.checksum:
            raise BrokenClaim(
                line,
                f"its payload has the checksum {draft[InDraft.checksum].hex()}, the line says {line.checksum.hex()}",
            )
        head = heads.get(line.stream) or store.stream_head(line.stream) or NO_HEAD
        stored = store.log.find(line.id) if line.id is not None and _is_behind(line, head) else None
        if stored is not None:
            _compare(line, seq=stored.seq, link=stored.link)
            continue
        row = chain.extend(line.stream, [draft], seq=head.seq, position=0, previous=head.link)[0]
        _compare(line, seq=row[InRow.seq], link=row[InRow.link])
        heads[line.stream] = Head(row[InRow.seq], row[InRow.link])


def _is_behind(line: Line, head: Head) -> bool:
    """Whether the line may be in the store already. Without a seq to compare, that has to be looked up."""
    return line.seq is None or line.seq <= head.seq


def _drafts(store: Store, lines: Sequence[Line]) -> list[Draft]:
    prepared = preparer(store, guarded=False).prepare([Request([Part(line.stream, [line.event]) for line in lines])])[0]
    if isinstance(prepared, Transaction):
        return [write.drafts[0] for write in prepared.writes]
    raise prepared


def preparer(store: Store, *, guarded: bool) -> Preparer:
    """What prepares events in this store, to be asked without writing; unguarded where the guard would warn twice."""
    chosen = guard.make(store.settings["secrets"]) if guarded else None
    return Preparer(profile=store.profile, clock=store.clock, catalog=store.catalog, guard=chosen)


def _compare(line: Line, *, seq: int, link: bytes) -> None:
    if line.seq is not None and line.seq != seq:
        raise BrokenClaim(line, f"it would have seq {seq} in {line.stream!r}, the line says {line.seq}")
    if line.link is None:
        return
    if line.id is None or line.event.time is None:
        raise BrokenClaim(line, "it has a link, which needs id and time")
    if line.link != link:
        raise BrokenClaim(line, f"it would have the link {link.hex()}, the line says {line.link.hex()}")
