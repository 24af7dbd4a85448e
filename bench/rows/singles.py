"""One writer, one event, durable: how long an append takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench import payloads
from bench.harness import Bar, Row, Samples, Spec, alternate, latencies_ms, measures, percentile
from bench.peers import raw
from bench.workshop import Workshop, bytes_on_disk
from tallystick import NewEvent, Store

MEDIAN_RAW = Spec(
    name="files: one event, durable, median, against the bare disk",
    unit="ms",
    against="write + fdatasync",
    bar=Bar("ratio", "<=", 2.0),
    note="the raw side appends the same number of bytes to a growing file and does nothing else",
)
MEDIAN = Spec(
    name="files: one event, durable, median",
    unit="ms",
    bar=Bar("value", "<=", 1.0),
    note="everything on",
    covers=("LH-18",),
)
P99 = Spec(
    name="files: one event, durable, p99",
    unit="ms",
    against="write + fdatasync",
    note="shown, without a bar: the tail is the disk's",
    covers=("LH-18",),
)


@measures(MEDIAN_RAW, MEDIAN, P99)
def singles(workshop: Workshop) -> Iterator[Row]:
    count = workshop.scale.singles
    bodies = payloads.orders(count)
    tails = {"ours": Samples([]), "raw": Samples([])}

    def turn(name: str, work: object) -> float:
        taken = latencies_ms(work, count=count)  # type: ignore[arg-type]
        tails[name].figures.append(percentile(taken, 0.99))
        return percentile(taken, 0.5)

    with workshop.store("files") as store, raw.file(workshop.place("raw")) as disk:
        piece = b"x" * _bytes_per_event(store, bodies)
        best = alternate(
            {
                "ours": lambda: turn(
                    "ours", lambda n: store.append(f"order/{n % 100}", NewEvent(payloads.TYPE, bodies[n]))
                ),
                "raw": lambda: turn("raw", lambda n: disk.append(piece)),
            },
            rounds=workshop.scale.rounds,
        )
    yield MEDIAN_RAW.row(best["ours"].lowest, best["raw"].lowest, note=best["ours"].spread)
    yield MEDIAN.row(best["ours"].lowest, note=best["ours"].spread)
    yield P99.row(tails["ours"].lowest, tails["raw"].lowest, note=tails["ours"].spread)


def _bytes_per_event(store: Store, bodies: list[dict[str, object]]) -> int:
    """How much one append adds to the files of a store."""
    place = Path(store.log.url.partition(":")[2])
    before, tries = bytes_on_disk(place), 50
    for body in bodies[:tries]:
        store.append("order/warm", NewEvent(payloads.TYPE, body))
    grown = (bytes_on_disk(place) - before) // tries
    return grown if grown > 0 else 600  # nothing to see if the engine reserves room ahead
