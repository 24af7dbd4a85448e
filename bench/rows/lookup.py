"""Finding one event, or the end of one stream, in a large store."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import tallystick
from bench.harness import Bar, Row, Samples, Spec, latencies_ms, measures, percentile
from bench.workshop import STREAM_EVENTS, Workshop

BY_ID = Spec(
    name="files: lookup by id in 1,000,000 events, median",
    unit="ms",
    bar=Bar("value", "<=", 1.0),
    note="ids spread evenly over the log, in random order, files in the page cache",
    covers=("LH-18",),
)
BY_ID_P99 = Spec(name="files: lookup by id in 1,000,000 events, p99", unit="ms", note="shown, without a bar")
STREAM_HEAD = Spec(
    name="files: stream head in 1,000,000 events, median",
    unit="ms",
    bar=Bar("value", "<=", 1.0),
    note="streams of 50 events, in random order",
    covers=("LH-18",),
)


@measures(BY_ID, BY_ID_P99, STREAM_HEAD)
def lookup(workshop: Workshop) -> Iterator[Row]:
    scale, chance = workshop.scale, random.Random(11)
    with tallystick.open(workshop.large_store()) as store:
        positions = [chance.randrange(scale.large) for _ in range(scale.lookups)]
        wanted = [store.read(after=position, limit=1).events[0].id for position in positions]
        chance.shuffle(wanted)
        streams = [f"order/{chance.randrange(scale.large // STREAM_EVENTS)}" for _ in wanted]
        middle, tail = _rounds(lambda n: _must(store.find(wanted[n])), scale.rounds, scale.lookups)
        heads, _ = _rounds(lambda n: _must(store.stream_head(streams[n])), scale.rounds, scale.lookups)
    yield BY_ID.row(middle.lowest, note=_notes(workshop, middle))
    yield BY_ID_P99.row(tail.lowest, note=_notes(workshop, tail))
    yield STREAM_HEAD.row(heads.lowest, note=_notes(workshop, heads))


def _rounds(work: Callable[[int], object], rounds: int, count: int) -> tuple[Samples, Samples]:
    """The medians and the 99th percentiles of each round."""
    taken = [latencies_ms(work, count=count) for _ in range(rounds)]
    return Samples([percentile(each, 0.5) for each in taken]), Samples([percentile(each, 0.99) for each in taken])


def _must(found: object) -> None:
    if found is None:
        raise RuntimeError("an event that is in the store was not found")


def _notes(workshop: Workshop, samples: Samples) -> str:
    return "; ".join(filter(None, (samples.spread, workshop.scale.large_note)))
