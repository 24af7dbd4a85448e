"""Taking over the log of another store as it is: events at their positions, with what was pruned and erased.

A transfer continues where the receiving log ends, so it may be interrupted after any of its parts. A pruned stream
begins at its cut. An erased event comes without its payload. A pruned position is known by the id, type, org and tags
of its event, and a position that was never used stays unused. The control facts about this come later, as events of the
transfer. Each cut and each erased event announces the position of its fact: until the log reaches it, verification
reports that the move is unfinished (`EventLog.announced`).

Only this module judges what an engine takes over: every checksum, seq and link, from the first event on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from tallystick import errors
from tallystick.event import canonical, chain, limits, names, profiles
from tallystick.event.model import Event, Row
from tallystick.store import facts, fields
from tallystick.store.ledger import NO_HEAD, Head, Source
from tallystick.store.maintenance import Cut, Erasure, PrunedEvent, before_cut

MOVING = "tally.move"
"""The checkpoint that a store has from the first fact about a snapshot until the move is finished."""
UNUSED_MAX = 10_000_000  # in one part


class FoundingCut(msgspec.Struct, frozen=True):
    """A cut with which a stream begins here, and the position of the control fact that names it."""

    cut: Cut
    fact_position: int


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """A part of another store's log: everything after `after`, up to the position of its last event.

    `pruned` is what is kept of pruned events. `cuts` come with the first part. `erased` maps the position of each
    event without a payload to the position of its control fact.
    """

    after: int
    events: tuple[Event, ...]
    pruned: tuple[PrunedEvent, ...] = ()
    cuts: tuple[FoundingCut, ...] = ()
    erased: dict[int, int] = {}

    @property
    def until(self) -> int:
        """The last position of the part."""
        return self.events[-1].position


class ReceiverView(Protocol):
    """What the judgement needs of the receiving log."""

    def find(self, id: bytes) -> Event | None: ...
    def stream_head(self, stream: str) -> Head | None: ...
    def cut(self, stream: str) -> Cut | None: ...
    def source_head(self, org: str, source: str) -> int: ...


class Received(msgspec.Struct):
    """A part that was judged, as an engine writes it.

    `erasures` are those of events in this part, each with the position of its control fact, which may come later.
    `named` are those whose control facts are in this part. `skipped` are ranges of positions that were never used.
    """

    after: int
    until: int
    rows: list[Row] = []
    heads: dict[str, Head] = {}
    sources: dict[Source, int] = {}
    cuts: tuple[FoundingCut, ...] = ()
    pruned: tuple[PrunedEvent, ...] = ()
    erasures: list[tuple[Erasure, int]] = []
    named: list[Erasure] = []
    skipped: list[tuple[int, int]] = []

    @property
    def announced(self) -> int:
        """The last position at which a control fact is announced; 0 if there is none."""
        positions = [founding.fact_position for founding in self.cuts]
        return max([0, *positions, *(fact_position for _, fact_position in self.erasures)])

    def committed(self) -> None:
        """Do nothing: a transfer takes no leases, unlike a commit that the ledger judged."""


def judge(view: ReceiverView, part: Transfer, *, head: int) -> Received:
    """The part as it is written; refused if it does not continue exactly where the log ends."""
    if part.after != head:
        reason = f"the log ends at position {head}, but the part starts after {part.after}"
        raise errors.TransferRefused(position=part.after + 1, reason=reason)
    if part.cuts and head:
        raise errors.TransferRefused(position=head, reason="streams can begin with a cut only in an empty store")
    cuts = {founding.cut.stream: founding.cut for founding in part.cuts}
    found = Received(part.after, part.until, cuts=part.cuts, pruned=part.pruned, skipped=_unused(part))
    _require_new_ids(view, part)
    for event in part.events:
        before = found.heads.get(event.stream) or _beginning(view, cuts, event.stream)
        _check(event, before)
        if event.payload is None:
            found.erasures.append((_erasure(event), _fact_position(part, event)))
        meta = _meta(event)
        found.rows.append(event.row)
        found.heads[event.stream] = Head(event.seq, event.link, _org(event, before, meta))
        _take_source(view, event, meta, found)
        if event.type == facts.ERASED and names.is_reserved(event.stream):
            _take_named(view, cuts, event, found)
    for stream, cut in cuts.items():
        found.heads.setdefault(stream, Head(cut.through, cut.link, cut.org))
    return found


def _require_new_ids(view: ReceiverView, part: Transfer) -> None:
    seen = {gone.id for gone in part.pruned}
    for event in part.events:
        if event.id in seen or view.find(event.id) is not None:
            reason = f"its id {event.id.hex()} is that of another event"
            raise errors.TransferRefused(position=event.position, reason=reason)
        seen.add(event.id)


def _beginning(view: ReceiverView, cuts: dict[str, Cut], stream: str) -> Head:
    """What the first event of a stream in this part follows."""
    known = view.stream_head(stream)
    cut = cuts.get(stream)
    if known is not None or cut is None:
        return known or NO_HEAD
    return Head(cut.through, cut.link, cut.org)


def _check(event: Event, before: Head) -> None:
    reason = None
    if event.payload is not None and chain.checksum(event.payload) != event.checksum:
        reason = "its payload does not have its checksum"
    elif event.payload is None and names.is_reserved(event.stream):
        reason = "it is a control fact, and has no payload"
    elif event.seq != before.seq + 1:
        reason = f"its stream {event.stream!r} is at seq {before.seq}, and it has seq {event.seq}"
    elif chain.link(event, before.link) != event.link:
        reason = "its link does not follow from it and the link before it"
    if reason is not None:
        raise errors.TransferRefused(position=event.position, reason=reason)


def _meta(event: Event) -> dict[str, Any]:
    return event.metadata if event.meta != b"{}" else {}


def _org(event: Event, before: Head, meta: dict[str, Any]) -> str | None:
    org = meta.get("org")
    if before.org is not None and org is not None and org != before.org:
        reason = f"its stream belongs to org {before.org!r}, and it names {org!r}"
        raise errors.TransferRefused(position=event.position, reason=reason)
    return before.org if before.org is not None else org


def _take_source(view: ReceiverView, event: Event, meta: dict[str, Any], found: Received) -> None:
    source, seq = meta.get("source"), meta.get("source_seq")
    if source is None or seq is None:
        return
    org = meta.get("org", "")
    last = found.sources.get((org, source)) or view.source_head(org, source)
    if seq <= last:
        reason = f"its source {source!r} is at {last}, and it has {seq}"
        raise errors.TransferRefused(position=event.position, reason=reason)
    found.sources[org, source] = seq


def _erasure(event: Event) -> Erasure:
    return Erasure(stream=event.stream, seq=event.seq, position=event.position, id=event.id, checksum=event.checksum)


def _fact_position(part: Transfer, event: Event) -> int:
    found = part.erased.get(event.position, 0)
    if found <= event.position:
        reason = "its payload is gone, and the part does not name a later control fact about it"
        raise errors.TransferRefused(position=event.position, reason=reason)
    return found


def _take_named(view: ReceiverView, cuts: dict[str, Cut], event: Event, found: Received) -> None:
    try:
        fact = facts.parse(event, facts.Erased)
        id_, checksum = bytes.fromhex(fact.event), bytes.fromhex(fact.checksum)
    except ValueError as problem:  # msgspec's errors are values' errors
        reason = f"the fact does not have its form: {problem}"
        raise errors.TransferRefused(position=event.position, reason=reason) from problem
    gone, _ = before_cut(cuts.get(fact.stream) or view.cut(fact.stream))
    if fact.seq <= gone:
        return  # it was pruned later
    erasure = Erasure(
        stream=fact.stream,
        seq=fact.seq,
        position=fact.position,
        id=id_,
        checksum=checksum,
    )
    found.named.append(erasure)


def _unused(part: Transfer) -> list[tuple[int, int]]:
    """The ranges of positions without an event, pruned or not. The positions must rise, and not repeat."""
    found = []
    last = part.after
    for position in _rising(part):
        if position <= last:
            raise errors.TransferRefused(position=position, reason=f"it comes after position {last}")
        if position > last + 1:
            found.append((last + 1, position - 1))
        last = position
    if last != part.until:
        raise errors.TransferRefused(position=last, reason="a part ends with an event")
    unused = sum(last - first + 1 for first, last in found)
    if unused > UNUSED_MAX:
        reason = f"{unused} positions before it were never used, and {UNUSED_MAX} can be skipped at once"
        raise errors.TransferRefused(position=part.until, reason=reason)
    return found


def _rising(part: Transfer) -> Sequence[int]:
    return sorted([event.position for event in part.events] + [gone.position for gone in part.pruned])


def check_form(event: Event) -> None:
    """Refuse an event whose fields do not have the form that every stored event has."""
    names.stream_kind(event.stream)
    names.check_type(event.type)
    fields.check_version(event.version)
    fields.times([event.time], 0)
    fields.check_signatures([event.signature])
    for what, number in (("position", event.position), ("seq", event.seq)):
        if not 0 < number <= limits.INT_MAX:
            raise errors.InvalidValue(what=what, value=names.display(number), must="from 1 to 2^63-1")
    if (len(event.checksum), len(event.link)) != (32, 32):
        raise errors.InvalidInput(reason="its checksum and link must have 32 bytes each")
    if event.payload is not None:
        _object(event.payload, "payload")
    profiles.check_meta(_object(event.meta, "meta"))


def _object(data: bytes, what: str) -> dict[str, Any]:
    """The object of canonical bytes; other bytes are refused."""
    found = canonical.parse(data, what=what)
    if type(found) is not dict or canonical.encode(found, what=what) != data:
        raise errors.NotCanonical(
            what=what, pointer="", reason="its bytes are not those of an object in canonical JSON"
        )
    return found
