"""Batches of a thousand events into the SQLite engine, against eventsourcing and a bare table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from bench import payloads
from bench.harness import Bar, Row, Spec, alternate, measures
from bench.peers import eventsourcing, raw
from bench.rows.batches import BATCH, append_batches, numbered
from bench.workshop import Workshop

ON = Spec(
    name="sqlite: batches of 1,000, everything on",
    unit="events/s",
    against="eventsourcing",
    bar=Bar("ratio", ">=", 0.35),
    note=f"validation, secret guard, checksum and chain on; {eventsourcing.UNEQUAL}",
)
OFF = Spec(
    name="sqlite: batches of 1,000, guard off",
    unit="events/s",
    against="eventsourcing",
    bar=Bar("ratio", ">=", 0.55),
    note=f'secrets="off"; validation, checksum and chain on; {eventsourcing.UNEQUAL}',
)
RAW = Spec(
    name="sqlite: batches of 1,000, against a bare table",
    unit="events/s",
    against="sqlite3 executemany",
    note="the bare table holds stream, type and payload: no index but its key, no checks, no hashes",
)


@measures(ON, OFF, RAW)
def sqlite(workshop: Workshop) -> Iterator[Row]:
    bodies = payloads.orders(BATCH)
    count = workshop.scale.batches
    with ExitStack() as stack:
        on = stack.enter_context(workshop.store("sqlite"))
        off = stack.enter_context(workshop.store("sqlite", secrets="off"))
        library = stack.enter_context(eventsourcing.recorder(workshop.place("eventsourcing")))
        table = stack.enter_context(raw.table(workshop.place("table")))
        best = alternate(
            {
                "on": append_batches(on, bodies, count),
                "library": numbered(lambda stream: library.append(bodies), count),
                "off": append_batches(off, bodies, count),
                "table": numbered(lambda stream: table.append(stream, bodies), count),
            },
            rounds=workshop.scale.rounds,
        )
    figure = {name: samples.highest for name, samples in best.items()}
    yield ON.row(figure["on"], figure["library"], note=best["on"].spread)
    yield OFF.row(figure["off"], figure["library"], note=best["off"].spread)
    yield RAW.row(figure["on"], figure["table"])
