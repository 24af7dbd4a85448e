"""Spark's checkpoint may disagree with the rows or the log: missing events are read, or the query is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.pipeline import clear
from tallystick.pipeline.jobs.stream import stream
from tallystick.pipeline.source.columns import COLUMNS
from tallystick.pipeline.source.log_query import LogQuery, parse
from tallystick.pipeline.source.stream_reader import LogStreamReader
from tallystick.projections import Live, Projection, ViewReader
from tallystick.projections import rebuild as rebuild_in_process
from tallystick.state import erase

EVENTS = 12


class Seen(Projection):
    """The payments of every stream."""

    types = ("order.paid",)
    key = "stream"

    def initial(self) -> dict[str, Any]:
        """None yet."""
        return {"seen": []}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """The state after one more payment; a repeated payment would be noticed."""
        return {"seen": [*found["seen"], event.seq]}


class Other(Seen):
    """Another projection over the same events."""


def pay(store: Store, events: int) -> None:
    """Append payments to two streams."""
    for number in range(events):
        store.append(f"order/o{number % 2}", NewEvent("order.paid", {"number": number}))


def seen(url: str, name: str = "Seen") -> int:
    """The number of payments in the rows; each once and in order."""
    with tallystick.open(url, readonly=True) as store:
        rows = [state["seen"] for _, state in ViewReader(store, name).items()]
    assert all(row == sorted(set(row)) for row in rows)
    return sum(map(len, rows))


def run(spark: SparkSession, url: str, checkpoint: Path, projection: Projection | None = None) -> None:
    """Stream until the query has caught up, as the command does."""
    with clear():
        stream(spark, url, projection or Seen(), str(checkpoint), batch_events=8).awaitTermination()


def discard(url: str, name: str = "Seen") -> None:
    """Delete the rows and their place."""
    with tallystick.open(url) as store:
        for place in store.log.views.places():
            if place.projection == name:
                store.log.views.discard(name, place.epoch, limit=10_000, live=True)


@contextmanager
def backup(url: str, place: Path) -> Iterator[None]:
    """Restore a file log afterwards to the state before."""
    log, kept = Path(url.removeprefix("files:")), place / "backup"
    shutil.copytree(log, kept)
    yield
    shutil.rmtree(log)
    kept.rename(log)


@pytest.mark.security
@pytest.mark.parametrize("more", [0, 4])
def test_rows_behind_the_checkpoint_are_brought_up(
    spark: SparkSession, files_url: str, tmp_path: Path, more: int
) -> None:
    """SAFE-07: rows that were discarded are rebuilt from the first event, with or without new events."""
    bring_up(spark, files_url, tmp_path, more)


@pytest.mark.slow
@pytest.mark.security
def test_rows_behind_the_checkpoint_are_brought_up_on_every_engine(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    """SAFE-07: the same on every engine."""
    bring_up(spark, url, tmp_path, 4)


def bring_up(spark: SparkSession, url: str, tmp_path: Path, more: int) -> None:
    """Stream, discard the rows, and stream again."""
    with tallystick.open(url) as store:
        pay(store, EVENTS)
    run(spark, url, tmp_path / "c")
    discard(url)
    with tallystick.open(url) as store:
        pay(store, more)
    run(spark, url, tmp_path / "c")
    assert seen(url) == EVENTS + more


@pytest.mark.security
def test_a_checkpoint_belongs_to_one_projection(spark: SparkSession, files_url: str, tmp_path: Path) -> None:
    """SAFE-07: another projection cannot use the checkpoint of the first; it is refused by name."""
    with tallystick.open(files_url) as store:
        pay(store, EVENTS)
    run(spark, files_url, tmp_path / "c")
    with tallystick.open(files_url) as store:
        pay(store, 2)
    with pytest.raises(errors.WrongQuery, match=r"projection Seen.*projection Other"):
        run(spark, files_url, tmp_path / "c", Other())
    run(spark, files_url, tmp_path / "other", Other())
    assert seen(files_url, "Other") == EVENTS + 2


@pytest.mark.security
def test_a_checkpoint_of_a_history_that_was_replaced_is_refused(
    spark: SparkSession, files_url: str, tmp_path: Path
) -> None:
    """SAFE-07: a restored backup that grew past the checkpoint with other events is another history."""
    with tallystick.open(files_url) as store:
        pay(store, 7)
        Live(store, Seen()).catch_up()
    with backup(files_url, tmp_path):
        with tallystick.open(files_url) as store:
            pay(store, 5)
        run(spark, files_url, tmp_path / "c")
    with tallystick.open(files_url) as store:
        pay(store, 6)
    with pytest.raises(errors.WrongStore, match="another link"):
        run(spark, files_url, tmp_path / "c")
    run(spark, files_url, tmp_path / "new")
    assert seen(files_url) == 13


@pytest.mark.slow
@pytest.mark.security
def test_rows_of_a_backup_are_brought_up(spark: SparkSession, files_url: str, tmp_path: Path) -> None:
    """SAFE-07: a backup is refilled with the same events: the checkpoint is ahead of the rows, no event is lost."""
    with tallystick.open(files_url) as store:
        pay(store, 7)
        Live(store, Seen()).catch_up()
    with backup(files_url, tmp_path):
        with tallystick.open(files_url) as store:
            pay(store, 5)
            lost = store.read(after=7).events
        run(spark, files_url, tmp_path / "c")
    with tallystick.open(files_url, clock=lambda: lost[0].time) as store:
        for event in lost:
            store.append(event.stream, NewEvent(event.type, event.data, id=event.id, time=event.time))
        assert store.read(after=7).events == lost
    run(spark, files_url, tmp_path / "c")
    assert seen(files_url) == EVENTS


@pytest.mark.security
def test_the_place_moves_to_the_end_of_the_batch(spark: SparkSession, files_url: str, tmp_path: Path) -> None:
    """SAFE-07: the place of the rows advances past events of other types, so there is no lag."""
    with tallystick.open(files_url) as store:
        pay(store, 3)
        for _ in range(9):
            store.append("order/o1", NewEvent("order.noted", {}))
    run(spark, files_url, tmp_path / "c")
    with tallystick.open(files_url, readonly=True) as store:
        reader = ViewReader(store, "Seen")
        assert reader.position() == store.head() == EVENTS
        reader.wait_for(store.head(), timeout=0.1)
        assert Live(store, Seen()).lag().events == 0


def test_a_pruned_log_is_followed_from_where_the_rows_are(
    spark: SparkSession, files_url: str, tmp_path: Path, prune: Callable[..., None]
) -> None:
    """PIPE-07: rows that are past the pruned events continue; rows that need them are refused by name."""
    with tallystick.open(files_url) as store:
        pay(store, EVENTS)
        Live(store, Seen()).catch_up()
    prune(files_url, "order/o1", 3)
    with tallystick.open(files_url) as store:
        pay(store, 4)
    run(spark, files_url, tmp_path / "c")
    assert seen(files_url) == EVENTS + 4
    with pytest.raises(errors.HistoryPruned):
        run(spark, files_url, tmp_path / "other", Other())


@pytest.mark.slow
def test_dropped_states_are_folded_again_without_new_events(
    spark: SparkSession, files_url: str, tmp_path: Path
) -> None:
    """PIPE-07: an erasure drops a state; the next run folds it again, although its checkpoint is at the head."""
    with tallystick.open(files_url) as store:
        pay(store, EVENTS)
        run(spark, files_url, tmp_path / "c")
        erase(store, "order/o1", 2, reason="asked")
        run(spark, files_url, tmp_path / "c")
        store.log.views.drop("Seen", ["order/o0"])
        run(spark, files_url, tmp_path / "c")
        assert store.log.views.dropped("Seen", 1, limit=10) == []
        streamed = ViewReader(store, "Seen").fingerprint().digest
        rebuild_in_process(store, Seen())
        assert ViewReader(store, "Seen").fingerprint().digest == streamed


# --- any query -------------------------------------------------------------------------------------------------------


def copy(spark: SparkSession, url: str, place: Path) -> None:
    """Copy the events that a query has not seen yet into Parquet."""
    read = spark.readStream.format("tallystick").option("url", url).load()
    write = read.writeStream.format("parquet").option("checkpointLocation", f"{place}/checkpoint")
    with clear():
        write.option("path", f"{place}/copy").trigger(availableNow=True).start().awaitTermination()


@pytest.mark.slow
@pytest.mark.security
def test_a_query_over_a_replaced_history_is_refused(spark: SparkSession, files_url: str, tmp_path: Path) -> None:
    """SAFE-07: an offset has the link at its position, so a query stops if the log grew differently."""
    with tallystick.open(files_url) as store:
        pay(store, 7)
    with backup(files_url, tmp_path):
        with tallystick.open(files_url) as store:
            pay(store, 5)
        copy(spark, files_url, tmp_path)
    with tallystick.open(files_url) as store:
        pay(store, 6)
    with pytest.raises(errors.WrongStore, match="another link"):
        copy(spark, files_url, tmp_path)


@pytest.mark.security
def test_a_batch_that_was_begun_is_not_gone_on_with_over_another_history(files_url: str, tmp_path: Path) -> None:
    """SAFE-07: a restarted query repeats its last batch before it asks for an offset; that is checked too."""
    reader = LogStreamReader(LogQuery(url=files_url), COLUMNS)
    with tallystick.open(files_url) as store:
        pay(store, 3)
        start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        pay(store, 2)
    with backup(files_url, tmp_path):
        with tallystick.open(files_url) as store:
            pay(store, 4)
        end = reader.latestOffset(start, ReadAllAvailable())
        assert [(part.after, part.until) for part in reader.partitions(start, end)] == [(3, 9)]
    with tallystick.open(files_url) as store:
        pay(store, 7)
    with pytest.raises(errors.WrongStore, match="another link"):
        reader.partitions(start, end)


@pytest.mark.security
@pytest.mark.parametrize(
    ("first", "then"),
    [({"type": "order.paid"}, {}), ({}, {"stream": "order/o1"}), ({"kind": "order"}, {"tenant": "acme"})],
)
def test_a_query_that_asks_for_something_else_needs_its_own_checkpoint(
    files_url: str, first: dict[str, str], then: dict[str, str]
) -> None:
    """SAFE-07: a query with another selection needs its own checkpoint; options on how to read do not matter."""
    with tallystick.open(files_url) as store:
        pay(store, 7)
    one, other, again = (
        LogStreamReader(parse({"url": files_url} | options), COLUMNS)
        for options in (first, then, first | {"maxEventsPerTrigger": "3"})
    )
    offset = one.latestOffset(one.initialOffset(), ReadAllAvailable())
    assert again.latestOffset(offset, ReadAllAvailable()) == offset
    with pytest.raises(errors.WrongQuery):
        other.latestOffset(offset, ReadAllAvailable())
