"""The end of a batch of `stream`: the bytes of its events decide, and each batch is published separately."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent, Store
from tallystick.engines.postgres.views import PostgresViews
from tallystick.engines.tables.views import SqliteViews
from tallystick.event.model import Event
from tallystick.pipeline.jobs.stream import stream
from tallystick.pipeline.source.log_query import LogQuery
from tallystick.pipeline.source.partitions import Range, bytes_of, split
from tallystick.pipeline.stream import batch_size
from tallystick.pipeline.stream.batch_size import last_within, marks_in
from tallystick.projections import Projection, ViewReader
from tallystick.projections import rebuild as rebuild_in_process
from tallystick.store.selection import Selection

CHOSEN = Selection(types=frozenset({"order.noted"}))


class Sizes(Projection):
    """The total length of the notes of each stream."""

    types = ("order.noted",)
    key = "stream"

    def initial(self) -> dict[str, int]:
        """Nothing yet."""
        return {"size": 0, "mixed": 0}

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """One note more."""
        size = len(event.data["note"])
        return {"size": found["size"] + size, "mixed": (found["mixed"] * 31 + size) % 1_000_003}


def fill(store: Store, chance: random.Random, events: int) -> None:
    """Small notes, some large ones, and events of a type that is not selected."""
    for _ in range(events):
        kind, size = chance.choice(["order.noted", "x.y"]), chance.choice([0, 10, 300, 300, 9000, 40_000])
        store.append(f"order/{chance.randrange(5)}", NewEvent(kind, {"note": "n" * size}))


def chosen(store: Store, after: int, until: int) -> list[Event]:
    """The events of a batch."""
    return list(store.events(after=after, until=until, selection=CHOSEN))


@pytest.mark.parametrize("seed", range(8))
def test_batches_keep_to_their_bytes_and_are_nearly_full(seed: int, tmp_path: Path) -> None:
    """PIPE-07: a batch has at most its bytes, or one event; one more event and the gap between marks do not fit."""
    chance = random.Random(seed)
    url = f"sqlite:{tmp_path}/log.db"
    with tallystick.open(url) as store:
        fill(store, chance, 200)
        head, query = store.head(), LogQuery(url=url, selection=CHOSEN)
        after, bytes_max = 0, chance.choice([500, 20_000, 90_000, 1 << 30])
        while after < head:
            parts = split(after, head, partition_events=chance.choice([1, 17, None]))
            marks = [mark for part in parts for mark in marks_in(store, query, part, bytes_max=bytes_max)]
            end = last_within(marks, after, head, bytes_max=bytes_max)
            sizes = [bytes_of(event) for event in chosen(store, after, end)]
            assert after < end <= head
            assert sum(sizes) <= bytes_max or len(sizes) == 1
            following = chosen(store, end, head)
            if following and sum(sizes) <= bytes_max:
                spare = max(bytes_max // batch_size.MARKS, bytes_of(following[0]))
                assert sum(sizes) + spare + bytes_of(following[0]) > bytes_max or len(parts) > 1
            after = end


def test_a_range_with_too_much_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-07: a task stops counting when its range alone has more bytes than the batch."""
    monkeypatch.setattr("tallystick.pipeline.source.partitions.BATCH_EVENTS", 5)
    url = f"sqlite:{tmp_path}/log.db"
    with tallystick.open(url) as store:
        for _ in range(50):
            store.append("order/1", NewEvent("order.noted", {"note": "n" * 1000}))
        marks = marks_in(store, LogQuery(url=url), Range(0, 50), bytes_max=4000)
    assert marks[-1][0] == 4


def test_no_transaction_has_more_bytes_than_asked(
    spark: SparkSession, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-07: on every engine, one transaction advances the rows by at most the limit of bytes, to the right rows."""
    bytes_max = 100_000
    with tallystick.open(url) as store:
        fill(store, random.Random(7), 150)
    steps: list[tuple[int, int]] = []
    made: Any = PostgresViews if url.startswith("postgres") else SqliteViews
    write = made.write_batch

    def noting(self: Any, place: Any, batch: bytes, *, rows: int, previous: int) -> None:
        write(self, place, batch, rows=rows, previous=previous)
        steps.append((previous, place.position))

    monkeypatch.setattr(made, "write_batch", noting)
    stream(spark, url, Sizes(), str(tmp_path / "checkpoint"), batch_bytes=bytes_max).awaitTermination()
    with tallystick.open(url) as store:
        sizes = [sum(map(bytes_of, chosen(store, *step))) for step in steps]
        found = ViewReader(store, "Sizes").fingerprint().digest
        rebuild_in_process(store, Sizes())
        assert ViewReader(store, "Sizes").fingerprint().digest == found
    assert steps[0][0] == 0
    assert all(this[1] == following[0] for this, following in pairwise(steps))
    assert len(steps) > 3
    assert max(sizes) <= bytes_max
