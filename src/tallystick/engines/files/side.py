"""Side records: what a frame says besides its events. MessagePack arrays, each of which begins with its name.

    ["lease", stream, number, owner]            a lease was taken, or given back (owner nil)
    ["cut", stream, through, link, first position, last position, count, org]
                                                a stream was pruned; the newest cut of a stream counts
    ["erase", stream, seq, position, id, checksum]
                                                the payload of one event is gone
    ["snapshot", id], ["drop", id]              a snapshot's file belongs to the log; no longer belongs to it
    ["announce", position]                      a part that was taken over: the position of the last control fact about
                                                its cuts and erasures, which may still be to come
    ["command", key, request hash, response, recorded ns, ranges, places]
                                                a command took effect with the events of this frame; with an empty
                                                response, it took effect before, and its response was erased here
    ["forget", digests]                         commands up to here are forgotten; 16 bytes each
    ["gone", ids]                               events of this frame that were pruned and left out of it; 16 bytes each
    ["kept", [[type, org, tags, steps…]…]]      what queries ask of the events in the `gone` record right before it, in
                                                its order: those of each type, org and tags, with their positions as
                                                steps from the one before, the first from 0. Earlier versions did not
                                                write it
    ["source", source, seq, org]                the sequence of a source of an org (empty if its events name none), when
                                                the event that had it was left out. Without the org, as older versions
                                                wrote it, it counts for every org
    ["joined", ids]                             segments that were joined to this one; 16 bytes each
    ["lost", first position, last position, reason, is indexed, ends]
                                                the positions were damaged, and their loss accepted. Ends are those of
                                                streams in the range, [stream, seq, link, org], as an index knew them

Invariants:
- A record that changes older events is in the frame of the control fact or commit that says so, and counts from there.
- `gone`, `kept` and `source` are about events that are not in the frame any more, or never were in this store.
- Records with unknown names are skipped, and kept when a frame is written again.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.leases import Lease
from tallystick.store.ledger import Ledger
from tallystick.store.loss import Loss
from tallystick.store.maintenance import Cut, Erasure, PrunedEvent
from tallystick.store.transfer import Received

ID_BYTES = 16

SourceKey: TypeAlias = tuple[str | None, str]
"""The org and the name of a source; None means every org."""


class SideRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The side records of one frame. `forgotten` holds digests of command keys, `gone` event ids."""

    leases: tuple[Lease, ...] = ()
    cuts: tuple[Cut, ...] = ()
    erasures: tuple[Erasure, ...] = ()
    snapshots: tuple[bytes, ...] = ()
    dropped: tuple[bytes, ...] = ()
    announced: int = 0
    commands: tuple[CommandRecord, ...] = ()
    forgotten: tuple[bytes, ...] = ()
    gone: tuple[bytes, ...] = ()
    kept: tuple[PrunedEvent, ...] = ()
    sources: tuple[tuple[SourceKey, int], ...] = ()
    losses: tuple[Loss, ...] = ()


NOTHING = SideRecords()


def of_ledger(ledger: Ledger, load: Callable[[CommandKey], CommandRecord | None]) -> SideRecords:
    """What a commit says besides its events. A command whose response is erased is recorded again, without it."""
    leases, commands, asked = ledger.leases, ledger.commands, ledger.maintenance
    if asked is None:
        return SideRecords(leases=tuple(leases), commands=tuple(commands))
    return SideRecords(
        leases=tuple(leases),
        commands=(*commands, *(found.without_response for found in map(load, asked.erased_responses) if found)),
        cuts=asked.cuts,
        erasures=asked.erasures,
        snapshots=tuple(snapshot.id for snapshot in asked.snapshots),
        dropped=asked.dropped_snapshots,
    )


def of_received(part: Received) -> SideRecords:
    """What the frame of a part of another store's log says besides its events.

    The frame covers every position up to its last event, also those without one. Its records say what the streams begin
    with (`cut`), which ids are gone (`gone`), which of its events were erased (`erase`), and up to where the control
    facts of these are still to come (`announce`). An erasure whose control fact is in the frame is noted again, so that
    either frame can be refilled.
    """
    return SideRecords(
        cuts=tuple(founding.cut for founding in part.cuts),
        erasures=(*(erasure for erasure, _ in part.erasures), *part.named),
        announced=part.announced,
        gone=tuple(gone.id for gone in part.pruned),
        kept=tuple(gone for gone in part.pruned if gone.type is not None),
    )


def encode(records: SideRecords) -> list[Any]:
    """The records as a frame holds them."""
    found: list[Any] = [("lease", lease.stream, lease.number, lease.owner) for lease in records.leases]
    found += [("cut", *msgspec.structs.astuple(cut)) for cut in records.cuts]
    found += [("erase", *msgspec.structs.astuple(erasure)) for erasure in records.erasures]
    found += [("announce", records.announced)] if records.announced else []
    found += [("snapshot", id_) for id_ in records.snapshots]
    found += [("drop", id_) for id_ in records.dropped]
    found += [("command", *msgspec.structs.astuple(command)) for command in records.commands]
    found += [("forget", b"".join(records.forgotten))] if records.forgotten else []
    found += _gone_of(records)
    found += [_source_record(*source, seq) for source, seq in records.sources]
    found += [("lost", *msgspec.structs.astuple(loss)) for loss in records.losses]
    return found


def decode(side: Sequence[Any]) -> SideRecords:
    """The records that a frame holds."""
    if not side:
        return NOTHING
    named: dict[str, list[Any]] = {}
    kept: list[PrunedEvent] = []
    for name, *fields in side:
        if name == "kept" and (ids := named.get("gone")):
            kept += _kept(ids[-1][0], *fields)
        named.setdefault(name, []).append(fields)
    return SideRecords(
        leases=tuple(msgspec.convert(fields, Lease) for fields in named.get("lease", ())),
        cuts=tuple(cut_of(fields) for fields in named.get("cut", ())),
        erasures=tuple(
            Erasure(stream=stream, seq=seq, position=position, id=id_, checksum=checksum)
            for stream, seq, position, id_, checksum in named.get("erase", ())
        ),
        announced=max((position for (position,) in named.get("announce", ())), default=0),
        snapshots=tuple(id_ for (id_,) in named.get("snapshot", ())),
        dropped=tuple(id_ for (id_,) in named.get("drop", ())),
        commands=tuple(msgspec.convert(fields, CommandRecord) for fields in named.get("command", ())),
        forgotten=tuple(id_ for (packed,) in named.get("forget", ()) for id_ in split(packed)),
        gone=tuple(id_ for (packed,) in named.get("gone", ()) for id_ in split(packed)),
        kept=tuple(kept),
        sources=tuple(_source_of(*fields) for fields in named.get("source", ())),
        losses=tuple(msgspec.convert(fields, Loss) for fields in named.get("lost", ())),
    )


def gone_records(gone: Sequence[PrunedEvent]) -> list[Any]:
    """The records of events that are left out of a frame: their ids, and what queries ask of them."""
    if not gone:
        return []
    alike: dict[tuple[str | None, str | None, tuple[str, ...]], list[PrunedEvent]] = {}
    for each in gone:
        alike.setdefault((each.type, each.org, each.tags), []).append(each)
    ids = b"".join(each.id for some in alike.values() for each in some)
    return [("gone", ids), ("kept", [(*asked, *_steps(some)) for asked, some in alike.items()])]


def _steps(events: list[PrunedEvent]) -> Iterator[int]:
    at = 0
    for each in events:
        yield each.position - at
        at = each.position


def with_gone_joined(side: list[Any]) -> list[Any]:
    """The same records, with those of events that were left out put together."""
    gone = [record for record in side if record[0] in ("gone", "kept")]
    if len(gone) < 3:
        return side
    return [record for record in side if record[0] not in ("gone", "kept")] + _gone_of(decode(gone))


def _gone_of(records: SideRecords) -> list[Any]:
    known = {each.id for each in records.kept}
    unknown = b"".join(id_ for id_ in records.gone if id_ not in known)
    return gone_records(records.kept) + ([("gone", unknown)] if unknown else [])


def _kept(ids: bytes, alike: list[Any]) -> Iterator[PrunedEvent]:
    left = iter(split(ids))
    for type_, org, tags, *steps in alike:
        for position, id_ in zip(itertools.accumulate(steps), left, strict=False):
            yield PrunedEvent(position, id_, type_, org, tuple(tags))


def left_out(positions: range, present: Iterable[int], records: SideRecords) -> list[PrunedEvent]:
    """The events that were left out of a frame, in order, given the positions that it covers and those of its events.

    Which position each id has of which an earlier version kept nothing else is not known: any order will do.
    """
    if not records.gone and not records.kept:
        return []
    kept = {each.position: each for each in records.kept if each.position in positions}
    known = {each.id for each in records.kept}
    missing = sorted(set(positions).difference(present, kept))
    unknown = map(PrunedEvent, missing, (id_ for id_ in records.gone if id_ not in known))
    return sorted([*kept.values(), *unknown], key=lambda each: each.position)


def last_of(sources: Mapping[SourceKey, int], org: str, name: str) -> int:
    """The last sequence of a source for an org."""
    return max(sources.get((org, name), 0), sources.get((None, name), 0))


def _source_record(org: str | None, name: str, seq: int) -> tuple[str | int, ...]:
    return ("source", name, seq) if org is None else ("source", name, seq, org)


def _source_of(name: str, seq: int, org: str | None = None) -> tuple[SourceKey, int]:
    return (org, name), seq


def cut_of(fields: Iterable[Any]) -> Cut:
    """The cut of a record's fields."""
    stream, through, link, first, last, count, org = fields
    return Cut(
        stream=stream, through=through, link=link, first_position=first, last_position=last, count=count, org=org
    )


def split(packed: bytes) -> list[bytes]:
    """Ids or digests, packed one after the other."""
    return [packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES)]


def digest(key: CommandKey) -> bytes:
    """The digest of a command in the index: 16 bytes of BLAKE2b over the key's MessagePack."""
    return hashlib.blake2b(msgspec.msgpack.encode(key), digest_size=ID_BYTES).digest()
