"""For any history, inline, live, Spark in bulk and Structured Streaming give the same rows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import tallystick
from tallystick import state
from tallystick.event import canonical
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.rebuild import rebuild
from tallystick.pipeline.jobs.stream import stream
from tallystick.projections import Live, Projection, ViewReader, run_inline
from tallystick.testing.shop import NOTED, CustomerBalance, MergedFeed, OrderTotals, order_event
from tests.projections.histories import History, appends, erasures, play

Found = tuple[str, dict[str, bytes]]

SETTINGS = hypothesis.settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    suppress_health_check=list(hypothesis.HealthCheck),
)


class InlineTotals(OrderTotals):
    """The same, run inline."""


histories = st.lists(st.one_of(appends, appends, appends, erasures), min_size=6, max_size=25)

LAST = ("append", "cart/1", [order_event(NOTED, customer="a", amount=1, lamport=31)])
"""An inline projection folds what an erasure dropped with the next append."""


def erase(store: tallystick.Store, stream: str, seq: int) -> None:
    """Erase a payload as a user does."""
    state.erase(store, stream, seq, reason="asked")


def rows(store: tallystick.Store, name: str) -> Found:
    """The fingerprint and the bytes of every row."""
    reader = ViewReader(store, name)
    return reader.fingerprint().digest, {key: canonical.encode_state(each) for key, each in reader.items()}


def in_bulk(spark: SparkSession, store: tallystick.Store, projection: Projection, place: Path) -> Found:
    """The rows that Spark computes from archive and tail."""
    rebuild(spark, store, projection, place)
    return rows(store, projection.name)


def streamed(spark: SparkSession, store: tallystick.Store, projection: Projection, place: Path) -> Found:
    """The rows that Structured Streaming computes from the first event, in small batches."""
    views = store.log.views
    (epoch,) = [found.epoch for found in views.places() if found.projection == projection.name]
    views.discard(projection.name, epoch, limit=10_000, live=True)
    stream(spark, store.log.url, projection, str(place / projection.name), batch_events=15).awaitTermination()
    return rows(store, projection.name)


def agree(spark: SparkSession, history: History) -> None:
    """Run a history four ways."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        with tallystick.open(f"sqlite:{place}/log.db") as store:
            run_inline(store, InlineTotals())
            half = len(history) // 2
            play(store, history[:half], erase=erase)
            archive(spark, store.log.url, place / "archive")
            play(store, [*history[half:], LAST], erase=erase)
            for projection in (OrderTotals(), CustomerBalance(), MergedFeed()):
                Live(store, projection, batch_events=3).catch_up()
                live = rows(store, projection.name)
                assert in_bulk(spark, store, projection, place / "archive") == live
                assert streamed(spark, store, projection, place) == live
            assert rows(store, "InlineTotals") == rows(store, "OrderTotals")


@pytest.mark.timeout(600)
@hypothesis.given(history=histories)
@hypothesis.settings(SETTINGS, max_examples=3)
def test_four_runners_agree(spark: SparkSession, history: History) -> None:
    """PIPE-04, PIPE-07, EVT-14: the same bytes in every row and the same fingerprint, erasures included."""
    agree(spark, history)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@hypothesis.given(history=histories)
@hypothesis.settings(SETTINGS, max_examples=20)
def test_four_runners_agree_on_many_histories(spark: SparkSession, history: History) -> None:
    """PIPE-04, PIPE-07: the same on more histories."""
    agree(spark, history)
