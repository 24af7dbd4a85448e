"""The options `stream`, `timeFrom` and `timeUntil`, and limits of a batch, without a session."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

import tallystick
from tallystick import NewEvent, errors
from tallystick.event.model import Event
from tallystick.pipeline.source.columns import COLUMNS, to_events
from tallystick.pipeline.source.data_source import BatchReader
from tallystick.pipeline.source.log_query import parse
from tallystick.pipeline.source.stream_ranges import StreamRange
from tallystick.pipeline.source.stream_reader import LogStreamReader

MakeLog = Callable[..., None]
Stored = Callable[[str], list[Event]]


def asked(url: str, **options: Any) -> tuple[list[Any], list[Event]]:
    """The partitions of a query, and all their events in order of position."""
    query = parse({"url": url} | {name: str(value) for name, value in options.items()})
    reader = BatchReader(query, COLUMNS)
    parts = reader.partitions()
    found = [event for part in parts for batch in reader.read(part) for event in to_events(batch)]
    return parts, sorted(found, key=lambda event: event.position)


def test_streams_are_read_by_themselves(url: str, make_log: MakeLog, stored: Stored) -> None:
    """PIPE-01: with any bounds, task sizes and other options, they are the events of the store."""
    make_log(url, events=90, streams=3)
    everything, chance = stored(url), random.Random(5)
    for _ in range(40):
        names = chance.sample(["order/o0", "order/o1", "order/o2", "order/o99"], chance.randint(1, 3))
        after, until = sorted(chance.sample(range(100), 2))
        options = {"stream": ",".join(names), "after": after, "until": until}
        wanted = [event for event in everything if event.stream in names and after < event.position <= until]
        if chance.random() < 0.5:
            options["type"], wanted = "order.paid", [event for event in wanted if event.type == "order.paid"]
        if chance.random() < 0.5:
            options["tenant"], wanted = "acme", [e for e in wanted if e.metadata["org"] == "acme"]
        if chance.random() < 0.5:
            options["partitionEvents"] = chance.randint(1, 20)
        assert asked(url, **options)[1] == wanted


def test_a_stream_is_found_by_the_index(files_url: str, make_log: MakeLog) -> None:
    """PIPE-01: partitions are ranges of streams, within the bounds."""
    make_log(files_url, events=90, streams=3)
    with tallystick.open(files_url, readonly=True) as store:
        positions = [event.position for event in store.stream("order/o1")]
    parts, _ = asked(files_url, stream="order/o1", after=positions[2], until=positions[9])
    assert parts == [StreamRange("order/o1", 3, 10)]


def test_a_pruned_stream_is_refused_or_begins_at_its_cut(
    files_url: str, make_log: MakeLog, prune: Callable[..., None]
) -> None:
    """PIPE-01: pruned streams are refused as with ranges of positions; other streams are read whole."""
    make_log(files_url, events=60, streams=3)
    prune(files_url, "order/o1", 5)
    with pytest.raises(errors.HistoryPruned):
        asked(files_url, stream="order/o1")
    with pytest.raises(errors.HistoryPruned):
        asked(files_url, stream="order/o0,order/o1", after=1)
    assert asked(files_url, stream="order/o1", pruned="skip")[1][0].seq == 6
    assert asked(files_url, stream="order/o0")[1][0].seq == 1


def test_times_choose(files_url: str) -> None:
    """PIPE-01: events at or after `timeFrom` and before `timeUntil`, in ns."""
    with tallystick.open(files_url) as store:
        for time in (5, 6, 7, 8):
            store.append("order/a", NewEvent("order.noted", {}, time=time))
    assert [event.time for event in asked(files_url, timeFrom=6, timeUntil=8)[1]] == [6, 7]
    assert [event.time for event in asked(files_url, stream="order/a", timeFrom=7)[1]] == [7, 8]


def follow(url: str, **options: str) -> list[int]:
    """The ends of the batches of a query, from the first event to the head."""
    reader = LogStreamReader(parse({"url": url} | options), COLUMNS)
    reader.prepareForTriggerAvailableNow()
    at, ends = reader.initialOffset(), []
    for _ in range(1000):
        following = reader.latestOffset(at, reader.getDefaultReadLimit())
        if following == at:
            return ends
        ends.append(following["position"])
        at = following
    raise AssertionError("it comes to no end")


def test_a_batch_keeps_to_its_bytes_and_to_its_events(files_url: str) -> None:
    """PIPE-07: whichever limit is reached first applies; an event larger than the limit is its own batch."""
    with tallystick.open(files_url) as store:
        for number in range(30):
            store.append("order/a", NewEvent("order.noted", {"text": "x" * (9000 if number == 13 else 300)}))
        sizes = {event.position: len(event.payload or b"") + 200 + len(event.meta) for event in store.events()}
    for limits in ({"maxBytesPerTrigger": "2000"}, {"maxBytesPerTrigger": "2000", "maxEventsPerTrigger": "3"}):
        ends = follow(files_url, **limits)
        assert ends[-1] == 30
        for before, end in itertools.pairwise([0, *ends]):
            size = sum(size for position, size in sizes.items() if before < position <= end)
            assert size <= 2000 or end == before + 1
            assert end - before <= int(limits.get("maxEventsPerTrigger", "30"))
    assert len(follow(files_url, maxBytesPerTrigger="1000000")) == 1


def test_spark_is_told_the_limit(files_url: str) -> None:
    """PIPE-07: Spark takes one limit: that of events, if both are set."""
    query = {"url": files_url}
    kinds = [
        type(LogStreamReader(parse(query | given), COLUMNS).getDefaultReadLimit())
        for given in ({}, {"maxEventsPerTrigger": "5"}, {"maxBytesPerTrigger": "5"})
    ]
    assert kinds == [ReadAllAvailable, ReadMaxRows, ReadMaxBytes]


def test_the_lag_is_reported(files_url: str, make_log: MakeLog, tmp_path: Path) -> None:
    """PIPE-07: the number of positions from the end of the last batch to the head."""
    make_log(files_url, events=10)
    reader = LogStreamReader(parse({"url": files_url, "maxEventsPerTrigger": "4"}), COLUMNS)
    at = reader.initialOffset()
    for lag in (6, 2, 0, 0):
        at = reader.latestOffset(at, reader.getDefaultReadLimit())
        assert reader.reportLatestOffset()["lag"] == lag
