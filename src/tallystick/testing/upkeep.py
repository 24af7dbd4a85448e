"""Maintenance for tests, at the level of the port: what `state/` does, without its safety rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tallystick.event import ids
from tallystick.event.model import Event, NewEvent
from tallystick.store import facts
from tallystick.store.maintenance import Cut, Erasure, Maintenance
from tallystick.store.snapshots import Snapshot
from tallystick.store.store import Store


def cut_of(store: Store, stream: str, through: int) -> Cut:
    """The cut that prunes a stream up to a seq."""
    before = store.cut(stream)
    gone = before.through if before else 0
    events = store.read_stream(stream, after=gone, until=through, limit=100_000)
    head = store.stream_head(stream)
    assert head is not None
    return Cut(
        stream=stream,
        through=through,
        link=events[-1].link,
        first_position=before.first_position if before else events[0].position,
        last_position=events[-1].position,
        count=through,
        org=head.org,
    )


def pruned_fact(cut: Cut) -> tuple[str, NewEvent]:
    """The control fact of a cut."""
    fact = facts.Pruned(
        stream=cut.stream,
        through=cut.through,
        link=cut.link.hex(),
        first_position=cut.first_position,
        last_position=cut.last_position,
        count=cut.count,
        org=cut.org,
        snapshots=[],
        lost=[],
        accepted=True,
    )
    return _fact(cut.stream, facts.PRUNED, fact)


def prune(store: Store, stream: str, through: int) -> Cut:
    """Prune a stream up to a seq, whether a snapshot covers it or not."""
    cut = cut_of(store, stream, through)
    store.record([pruned_fact(cut)], maintenance=Maintenance(cuts=(cut,)))
    return cut


def pruning_first(store: Store, check: Callable[..., Any], begun: list[str]) -> Callable[..., Any]:
    """A check that prunes most of `order/1` before its first call, once for all checks that share `begun`."""

    def checking(*args: Any, **options: Any) -> Any:
        if not begun:
            begun.append("order/1")
            prune(store, "order/1", 5)
        return check(*args, **options)

    return checking


def erasure_of(event: Event) -> Erasure:
    """The erasure of one event."""
    return Erasure(stream=event.stream, seq=event.seq, position=event.position, id=event.id, checksum=event.checksum)


def erased_fact(erasure: Erasure) -> tuple[str, NewEvent]:
    """The control fact of an erasure."""
    fact = facts.Erased(
        stream=erasure.stream,
        seq=erasure.seq,
        position=erasure.position,
        event=erasure.id.hex(),
        checksum=erasure.checksum.hex(),
        reason="a test",
    )
    return _fact(erasure.stream, facts.ERASED, fact)


def erase(store: Store, stream: str, seq: int) -> Erasure:
    """Erase the payload of one event."""
    erasure = erasure_of(store.read_stream(stream, after=seq - 1, limit=1)[0])
    store.record([erased_fact(erasure)], maintenance=Maintenance(erasures=(erasure,)))
    return erasure


def snapshot(store: Store, stream: str, body: bytes = b'{"n":1}', **changed: Any) -> Snapshot:
    """Make and record a snapshot of a stream at its head, with this body."""
    made = snapshot_of(store, stream, body, **changed)
    store.record([snapshot_fact(made)], maintenance=Maintenance(snapshots=(made,)))
    return made


def snapshot_of(store: Store, stream: str, body: bytes, **changed: Any) -> Snapshot:
    """A snapshot of a stream at its head, not yet stored."""
    from tallystick.event.chain import checksum

    head = store.stream_head(stream)
    assert head is not None
    fields: dict[str, Any] = {
        "id": ids.default.mint(1, time_ns=store.clock())[0],
        "stream": stream,
        "seq": head.seq,
        "position": store.head(),
        "link": head.link,
        "reducer": "test",
        "reducer_version": 1,
        "upcasters": bytes(32),
        "state_hash": checksum(body),
        "made": store.clock(),
        "body": body,
    }
    return Snapshot(**(fields | changed))


def snapshot_fact(made: Snapshot) -> tuple[str, NewEvent]:
    """The control fact of a snapshot."""
    from tallystick.event.chain import checksum

    fact = facts.Snapshotted(
        stream=made.stream,
        seq=made.seq,
        position=made.position,
        link=made.link.hex(),
        reducer=made.reducer,
        reducer_version=made.reducer_version,
        upcasters=made.upcasters.hex(),
        state_hash=made.state_hash.hex(),
        body_hash=checksum(made.body).hex(),
        body_bytes=len(made.body),
        kind=made.kind,
        latest=made.made,
    )
    return _fact(made.stream, facts.SNAPSHOTTED, fact, id=made.id)


def drop(store: Store, *snapshots: Snapshot) -> None:
    """Drop snapshots of one stream."""
    stream, dropped = snapshots[0].stream, tuple(made.id for made in snapshots)
    fact = facts.SnapshotsDropped(stream=stream, snapshots=[id_.hex() for id_ in dropped], reason="a test")
    named = _fact(stream, facts.SNAPSHOT_DROPPED, fact)
    store.record([named], maintenance=Maintenance(dropped_snapshots=dropped))


def _fact(stream: str, type_: str, fact: facts.Fact, **fields: Any) -> tuple[str, NewEvent]:
    return facts.stream_about(stream), NewEvent(type_, fact.payload, **fields)
