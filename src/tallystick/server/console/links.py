"""The chain around one event: each link with what it should be, and holes and pruned parts."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from tallystick import errors
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store import iterate
from tallystick.store.page import Hole
from tallystick.store.store import Store

REACH = 2


class Ring(msgspec.Struct):
    """A link. `kind` is `good`, `bad`, `hole`, `pruned` or `missing`. `breaks`: the next one does not follow."""

    kind: str
    seq: str
    position: int = 0
    type: str = ""
    link: str = ""
    computed: str = ""
    why: str = ""
    breaks: bool = False


def of_stream(store: Store, stream: str, seq: int, *, reach: int = REACH) -> list[Ring]:
    """The chain of a stream, from `reach` events before a seq to `reach` after it."""
    head = store.stream_head(stream)
    last = min(seq + reach, head.seq if head else seq)
    rings = []
    before: Event | bytes | None = _before(store, stream, max(1, seq - reach))
    for at in range(max(1, seq - reach), max(last, seq) + 1):
        found = _event(store, stream, at)
        if isinstance(found, Ring):
            rings.append(found)
            before = None
        else:
            rings.append(_ring(found, before))
            before = found
    return _broken(rings)


def _before(store: Store, stream: str, seq: int) -> Event | bytes | None:
    """What the first ring follows: an event, the link at a cut, or the beginning."""
    if seq == 1:
        return chain.GENESIS
    cut = store.cut(stream)
    if cut is not None and cut.through == seq - 1:
        return cut.link
    found = _event(store, stream, seq - 1)
    return found if isinstance(found, Event) else None


def _event(store: Store, stream: str, seq: int) -> Event | Ring:
    try:
        found = iterate.at(store.log, stream, seq)
    except errors.HistoryPruned:
        return Ring("pruned", str(seq), why="pruned")
    except errors.Damaged as damage:
        return Ring("hole", str(seq), why=damage.message)
    return found if found is not None else Ring("missing", str(seq), why="no event can be read here")


def _ring(event: Event, before: Event | bytes | None) -> Ring:
    previous = before.link if isinstance(before, Event) else before
    computed = chain.link(event, previous) if previous is not None else None
    why = []
    if event.payload is not None and chain.checksum(event.payload) != event.checksum:
        why.append("the payload does not match this checksum")
    if computed is not None and computed != event.link:
        why.append("the link is not the hash of the event")
    return Ring(
        kind="bad" if why else "good",
        seq=str(event.seq),
        position=event.position,
        type=event.type,
        link=event.link.hex(),
        computed=computed.hex() if computed is not None else "",
        why="; ".join(why),
    )


def around_hole(store: Store, hole: Hole, *, reach: int = REACH) -> list[Ring]:
    """The log around a damaged range: the events before it, the hole, and the events after it."""
    before = _events(store, max(0, hole.first - 1 - reach), hole.first - 1)
    after = _events(store, hole.last, hole.last + reach)
    count = hole.last - hole.first + 1
    named = str(hole.first) if count == 1 else f"{hole.first} – {hole.last}"
    middle = Ring("hole", named, why=hole.reason, type=f"{count:,} damaged position{'s' if count > 1 else ''}")
    return _broken([*map(_at_position, before), middle, *map(_at_position, after)])


def _events(store: Store, after: int, until: int) -> list[Event]:
    if until <= after:
        return []
    page = store.log.read(
        after=after, until=until, limit=until - after, over_holes=True, over_pruned=True, unchecked=True
    )
    return page.events


def _at_position(event: Event) -> Ring:
    bad = event.payload is not None and chain.checksum(event.payload) != event.checksum
    why = "the payload does not match this checksum" if bad else ""
    return Ring("bad" if bad else "good", str(event.position), event.position, event.type, event.link.hex(), why=why)


def _broken(rings: list[Ring]) -> list[Ring]:
    """Mark where the chain is broken: on both sides of a ring that is not good."""
    for ring, after in pairwise(rings):
        ring.breaks = ring.kind in ("hole", "missing", "bad") or after.kind in ("hole", "missing", "bad")
    return rings
