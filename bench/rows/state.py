"""Folding a long stream, restoring from a snapshot, snapshotting a large state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from bench import payloads
from bench.harness import Bar, Row, Spec, alternate, joined, latencies_ms, measures, percentile, rate
from bench.peers import eventsourcing
from bench.rows.large import probe
from bench.workshop import Workshop
from tallystick import NewEvent, Store, state
from tallystick.state import Reducer, Until, reducer

BATCH = 1000
STREAM = "order/long"
BEHIND = 1000
STATE_BYTES = 50_000_000

FOLD = Spec(
    name="files: folding 1,000,000 events, payloads read",
    unit="events/s",
    against="eventsourcing",
    bar=Bar("ratio", ">=", 2.0),
    note="one stream, pages of 5,000 and msgspec on both; on our side every frame hashed in every round, payloads"
    " and links once while their frame has the same bytes; " + eventsourcing.UNEQUAL,
    covers=("LH-18",),
)
RESTORE = Spec(
    name="files: state from a snapshot 1,000 events behind the head, median",
    unit="ms",
    bar=Bar("value", "<=", 20),
    note="the snapshot is found by its fact, its body and link checked, and the tail folded",
)
SNAPSHOT = Spec(
    name="files: snapshot of a 50 MB state",
    unit="s",
    bar=Bar("value", "<=", 5.0),
    note="canonical JSON, two SHA-256, gzip 6, fsync; the fold of the event not counted",
    covers=("LH-18",),
)
MEMORY = Spec(
    name="files: memory that a snapshot of a 50 MB state takes beside the state",
    unit="MB",
    bar=Bar("value", "<=", 300),
    note="a process of its own: highest resident size, less that with the state in memory",
)
FLAT = Spec(
    name="files: memory of a fold of all events over that of a tenth",
    unit="x",
    bar=Bar("value", "<=", 1.1),
    note="highest resident size of a process of its own",
)


@reducer(name="bench.sum", initial={"items": 0, "orders": 0})
def summing(value: dict[str, int], event: Any) -> dict[str, int]:
    """Looks into every payload."""
    return {"items": value["items"] + len(event.data), "orders": value["orders"] + 1}


@measures(FOLD, RESTORE, SNAPSHOT, MEMORY, FLAT)
def folding(workshop: Workshop) -> Iterator[Row]:
    """One long stream in both stores."""
    count = workshop.scale.large
    note = workshop.scale.large_note
    with workshop.store("files") as store, eventsourcing.recorder(workshop.place("es.db")) as peer:
        fill(store, count)
        peer.fill(payloads.orders(BATCH), count)
        best = alternate(
            {
                "ours": lambda: rate(count, lambda: _expect(count, _fold(store))),
                "theirs": lambda: rate(count, lambda: _expect(count, peer.fold(_apply))),
            },
            rounds=3,
        )
        yield FOLD.row(best["ours"].highest, best["theirs"].highest, note=joined(note, best["ours"].spread))
        yield RESTORE.row(_restore_ms(store, count), note=note)
        url = store.log.url
        store.close()
        few, all_ = (probe("fold", url, str(part))["peak_mb"] for part in (count // 10, count))
    found = probe("snapshot", f"files:{workshop.place('big')}", str(STATE_BYTES))
    yield SNAPSHOT.row(found["seconds"])
    yield MEMORY.row(found["extra_mb"])
    yield FLAT.row(all_ / few, note=note)


def fill(store: Store, count: int) -> None:
    """A stream of `count` events."""
    bodies = payloads.orders(BATCH)
    for _ in range(count // BATCH):
        store.append(STREAM, [NewEvent(payloads.TYPE, body) for body in bodies])


def _fold(store: Store) -> int:
    found: int = state.fold(store, summing, STREAM, snapshots=False).value["orders"]
    return found


def _apply(value: dict[str, int], data: dict[str, Any]) -> dict[str, int]:
    return {"items": value["items"] + len(data), "orders": value["orders"] + 1}


def _restore_ms(store: Store, count: int) -> float:
    state.make(store, summing, STREAM, until=Until(seq=count - BEHIND))
    taken = latencies_ms(lambda _: _check(store, summing, count), count=30)
    return percentile(taken, 0.5)


def _check(store: Store, item: Reducer, count: int) -> None:
    found = state.fold(store, item, STREAM)
    if (found.seq, found.events) != (count, BEHIND):
        raise RuntimeError(f"{found.events} events were folded up to seq {found.seq}")


def _expect(count: int, found: int) -> None:
    if found != count:
        raise RuntimeError(f"{found} events were folded instead of {count}")


def large_state(size: int) -> dict[str, Any]:
    """A state of about so many bytes of JSON: many small objects, as a table of orders is."""
    order = payloads.orders(1)[0]
    rows = max(size // 300, 1)
    return {"orders": {f"order-{number:08d}": order | {"number": number} for number in range(rows)}}


def timed_snapshot(store: Store, value: dict[str, Any]) -> float:
    """Seconds that a snapshot of this state takes, from the event to the acknowledged commit."""
    keeps = reducer(name="bench.keeps", initial={})(lambda _, event: value)
    store.append("doc/large", NewEvent("doc.saved", {}))
    started = time.perf_counter()
    if state.make(store, keeps, "doc/large") is None:
        raise RuntimeError("no snapshot was made")
    return time.perf_counter() - started
