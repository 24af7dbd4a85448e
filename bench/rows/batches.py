"""Batches of a thousand events into the file engine, against UmaDB, eventsourcing and the bare disk."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import msgspec

from bench import payloads
from bench.harness import Bar, Row, Spec, alternate, measures, rate
from bench.peers import eventsourcing, raw, umadb
from bench.workshop import Workshop
from tallystick import NewEvent, Store

BATCH = 1000
_ON = "validation, secret guard, checksum and chain on"
_OFF = 'secrets="off"; validation, checksum and chain on'

ON = Spec(
    name="files: batches of 1,000, everything on",
    unit="events/s",
    against="umadb",
    bar=Bar("ratio", ">=", 0.6),
    note=f"{_ON}; {umadb.UNEQUAL}",
    covers=("LH-07", "LH-18"),
)
BATCHED = Spec(
    name="files: 50,000 events/s batched, everything on",
    unit="events/s",
    bar=Bar("value", ">=", 50_000),
    note=_ON,
    covers=("LH-18",),
)
OFF = Spec(
    name="files: batches of 1,000, guard off",
    unit="events/s",
    against="umadb",
    bar=Bar("ratio", ">=", 1.0),
    note=f"{_OFF}; {umadb.UNEQUAL}",
)
OFF_PYTHON = Spec(
    name="files: batches of 1,000, guard off, against eventsourcing",
    unit="events/s",
    against="eventsourcing",
    bar=Bar("ratio", ">=", 1.0),
    note=f"{_OFF}; {eventsourcing.UNEQUAL}",
)
NULLS = Spec(
    name="files: batches of 1,000, a null in every payload",
    unit="events/s",
    against="files, without nulls",
    note="a null must not cost more than other values, though msgspec writes one for NaN too",
)
RAW = Spec(
    name="files: batches of 1,000, against the bare disk",
    unit="events/s",
    against="write + fdatasync",
    note="the raw side encodes JSON and writes the payloads alone: no envelope, no checks, no index",
)


def numbered(append: Callable[[str], object], batches: int) -> Callable[[], float]:
    """A turn that appends so many batches, each to a stream of its own."""
    numbers = itertools.count(1)
    return lambda: rate(BATCH, lambda: append(f"order/{next(numbers)}"), times=batches)


def append_batches(store: Store, bodies: list[dict[str, object]], batches: int) -> Callable[[], float]:
    """A turn of ours, from Python objects."""
    return numbered(lambda stream: store.append(stream, [NewEvent(payloads.TYPE, body) for body in bodies]), batches)


@measures(ON, BATCHED, OFF, OFF_PYTHON, NULLS, RAW)
def batches(workshop: Workshop) -> Iterator[Row]:
    bodies = payloads.orders(BATCH)
    nulls = [body | {"coupon": None} for body in bodies]
    count = workshop.scale.batches
    with ExitStack() as stack:
        on = stack.enter_context(workshop.store("files"))
        off = stack.enter_context(workshop.store("files", secrets="off"))
        uma = stack.enter_context(umadb.server(workshop.place("umadb")))
        library = stack.enter_context(eventsourcing.recorder(workshop.place("eventsourcing")))
        disk = stack.enter_context(raw.file(workshop.place("raw")))
        best = alternate(
            {
                "on": append_batches(on, bodies, count),
                "umadb": numbered(lambda stream: uma.append(stream, bodies), count),
                "off": append_batches(off, bodies, count),
                "eventsourcing": numbered(lambda stream: library.append(bodies), count),
                "nulls": append_batches(on, nulls, count),
                "raw": numbered(lambda stream: disk.append(b"".join(map(msgspec.json.encode, bodies))), count),
            },
            rounds=workshop.scale.rounds,
        )
    figure = {name: samples.highest for name, samples in best.items()}
    yield ON.row(figure["on"], figure["umadb"], note=best["on"].spread)
    yield BATCHED.row(figure["on"], note=best["on"].spread)
    yield OFF.row(figure["off"], figure["umadb"], note=best["off"].spread)
    yield OFF_PYTHON.row(figure["off"], figure["eventsourcing"], note=best["eventsourcing"].spread)
    yield NULLS.row(figure["nulls"], figure["on"])
    yield RAW.row(figure["on"], figure["raw"])
