"""Contract: projections and consumers that nobody runs can be dropped, others reset. Both are recorded."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import Store, errors, state
from tallystick.projections import (
    Live,
    Projection,
    TableProjection,
    TableRunner,
    drop_consumer,
    drop_projection,
    gauges,
    rebuild,
    reset_consumer,
)
from tallystick.projections.retire import STREAM
from tallystick.store.capabilities import ANY_STREAM, GLOBAL_ORDER, MULTI_STREAM
from tallystick.store.deadletters import DeadLetter
from tallystick.store.verify import verify
from tallystick.testing.builders import TYPE, events
from tallystick.testing.contract.harness import Contract, EngineHarness, needs


class Total(Projection):
    """Adds up numbers, by stream."""

    types = (TYPE,)

    def initial(self) -> Any:
        return 0

    def apply(self, state: Any, event: Any) -> Any:
        return state + event.data["n"]


class Numbers(TableProjection):
    """The same in its own table."""

    types = (TYPE,)
    tables = ("numbers",)

    def create(self, execute: Any) -> None:
        execute("CREATE TABLE {numbers} (n BIGINT)")

    def apply(self, execute: Any, event: Any) -> Any:
        execute("INSERT INTO {numbers} VALUES (1)")


class Added:
    """A reducer, so that a stream can be pruned."""

    name = "added"
    version = 1

    def initial(self) -> Any:
        return {"n": 0}

    def apply(self, state: Any, event: Any) -> Any:
        return {"n": state["n"] + event.data["n"]}


def _prune(store: Store) -> int:
    return state.prune(store, "order/1", before=9, reducers=[state.as_reducer(Added)], snapshot=True, accept=True)


def _facts(store: Store) -> list[tuple[str, Any]]:
    return [(event.type, event.data["name"]) for event in store.log.read_stream(STREAM, limit=100)]


class ReaderContract(Contract):
    """Projections and consumers at the end of their lives."""

    @needs(GLOBAL_ORDER, MULTI_STREAM, ANY_STREAM)
    def test_a_dropped_projection_is_gone_and_blocks_nothing(self, store: Store) -> None:
        """CP-07, settled 17: it kept the log from being pruned. Once it is dropped, in every epoch, it does not."""
        store.append("order/1", events(5))
        Live(store, Total()).catch_up()
        rebuild(store, Total())
        store.append("order/1", events(5))
        with pytest.raises(errors.PruneRefused, match="Total"):
            _prune(store)
        done = drop_projection(store, "Total", by="ada", reason="nobody reads it")
        assert (done.name, done.position) == ("Total", 5)
        assert [place for place in store.log.views.places() if place.projection == "Total"] == []
        assert store.log.views.rows("Total").rows == []
        assert _prune(store) == 8
        assert _facts(store) == [("tally.projection.dropped", "Total")]
        (fact,) = store.log.read_stream(STREAM, limit=100)
        assert (fact.metadata["actor_id"], fact.data["reason"]) == ("ada", "nobody reads it")
        assert verify(store.log).problems == []

    @needs(GLOBAL_ORDER, MULTI_STREAM, ANY_STREAM)
    def test_a_dropped_projection_can_be_made_again(self, store: Store) -> None:
        """CP-07: nothing of the log is lost."""
        store.append("order/1", events(3))
        Live(store, Total()).catch_up()
        before = store.log.views.rows("Total").rows
        drop_projection(store, "Total")
        Live(store, Total()).catch_up()
        assert [(row.key, row.state) for row in store.log.views.rows("Total").rows] == [
            (row.key, row.state) for row in before
        ]

    @needs(GLOBAL_ORDER, MULTI_STREAM, ANY_STREAM)
    def test_tables_of_a_projection_go_with_it(self, store: Store, harness: EngineHarness) -> None:
        """CP-07: also if a projection owns tables."""
        store.append("order/1", events(3))
        runner = TableRunner(harness.projector(store), Numbers())
        runner.catch_up()
        assert runner.query("SELECT count(*) FROM {numbers}") == [(3,)]
        assert [gauge.name for gauge in gauges(store)] == ["Numbers"]
        drop_projection(store, "Numbers")
        assert list(gauges(store)) == []
        with store.log.view_tables.reading() as session:
            assert session.views.places() == []
        runner.catch_up()
        assert runner.query("SELECT count(*) FROM {numbers}") == [(3,)]

    @needs(GLOBAL_ORDER, MULTI_STREAM, ANY_STREAM)
    def test_a_dropped_consumer_is_gone_and_blocks_nothing(self, store: Store) -> None:
        """CP-07: its checkpoint and, if requested, its dead letters."""
        store.append("order/1", events(10))
        store.save_checkpoint("mailer", 2)
        for position in (1, 2):
            store.log.dead_letters.park(DeadLetter("mailer", position, "order/1", position, TYPE, 3, 0, "refused"))
        store.log.dead_letters.park(DeadLetter("other", 1, "order/1", 1, TYPE, 3, 0, "refused"))
        with pytest.raises(errors.PruneRefused, match="mailer"):
            _prune(store)
        with pytest.raises(errors.LettersLeft) as refusal:
            drop_consumer(store, "mailer")
        assert refusal.value.count == 2
        done = drop_consumer(store, "mailer", letters=True)
        assert (done.position, done.dead_letters) == (2, 2)
        assert store.log.checkpoints.load("mailer") is None
        assert [letter.consumer for letter in store.log.dead_letters.letters(limit=100)] == ["other"]
        assert _prune(store) == 8
        assert _facts(store) == [("tally.consumer.dropped", "mailer")]

    @needs(GLOBAL_ORDER, MULTI_STREAM, ANY_STREAM)
    def test_a_consumer_without_a_place_is_dropped_too(self, store: Store) -> None:
        """CP-07: it stored a dead letter before its first checkpoint."""
        store.append("order/1", events(1))
        store.log.dead_letters.park(DeadLetter("mailer", 1, "order/1", 1, TYPE, 3, 0, "refused"))
        assert [(gauge.name, gauge.dead_letters) for gauge in gauges(store)] == [("mailer", 1)]
        drop_consumer(store, "mailer", letters=True)
        assert list(gauges(store)) == []

    @needs(GLOBAL_ORDER, MULTI_STREAM, ANY_STREAM)
    def test_a_consumer_goes_on_where_it_is_put(self, store: Store) -> None:
        """CP-07: forward or back, but not past the head and not into pruned events."""
        store.append("order/1", events(10))
        store.save_checkpoint("mailer", 7)
        for position in (0, 9):
            reset_consumer(store, "mailer", position)
            assert store.load_checkpoint("mailer") == position
        for wrong in (-1, store.head() + 1, True):
            with pytest.raises(errors.InvalidValue):
                reset_consumer(store, "mailer", wrong)
        _prune(store)
        with pytest.raises(errors.InvalidValue, match="pruned"):
            reset_consumer(store, "mailer", 1)
        assert _facts(store) == [("tally.consumer.reset", "mailer")] * 2

    @needs(GLOBAL_ORDER, MULTI_STREAM, ANY_STREAM)
    def test_what_is_not_there_is_refused_by_name(self, store: Store) -> None:
        """CP-07: nothing is recorded about what was not done. Nobody can move our own checkpoints."""
        for act in (drop_projection, drop_consumer):
            with pytest.raises(errors.ReaderNotFound):
                act(store, "nobody")
        with pytest.raises(errors.ReaderNotFound):
            reset_consumer(store, "nobody", 0)
        with pytest.raises(errors.ReservedName):
            drop_consumer(store, "tally.upkeep")
        assert store.head() == 0
