"""Erasing a payload, and the states that projections computed from it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tallystick.event.model import Event
from tallystick.projections import Consumer, Live, ViewReader, rebuild, run_inline
from tallystick.testing import upkeep
from tallystick.testing.contract.projections import fill, folded, stored
from tallystick.testing.shop import PLACED, CustomerBalance, OrderTotals, order_event


def test_a_key_of_which_no_event_is_left_has_no_row(open_store: Any, engine: str) -> None:
    """Settled 25: rows are as if the event never had that key, live and rebuilt."""
    store = open_store(engine)
    fill(store, 10)
    store.append("order/9", order_event(PLACED, customer="once"))
    live, reader = Live(store, CustomerBalance()), ViewReader(store, "CustomerBalance")
    live.catch_up()
    assert reader.get("once") is not None
    upkeep.erase(store, "order/9", 1)
    live.catch_up()
    assert stored(store, CustomerBalance()) == folded(store, CustomerBalance())
    assert store.log.views.rows("CustomerBalance", keys=["once"]).rows == []
    fingerprint = reader.fingerprint()
    rebuild(store, CustomerBalance())
    assert reader.fingerprint() == fingerprint


def test_a_runner_between_the_drop_and_the_erasure_keeps_nothing(open_store: Any, engine: str) -> None:
    """Settled 25: a state that was folded from the payload at that moment is dropped again."""
    store = open_store(engine)
    fill(store, 10)
    live = Live(store, OrderTotals())
    live.catch_up()
    commit = store.log.commit

    def beside(transactions: Any) -> Any:
        live.catch_up()
        assert "order/1" in stored(store, OrderTotals())
        return commit(transactions)

    store.log.commit = beside
    upkeep.erase(store, "order/1", 1)
    assert "order/1" not in stored(store, OrderTotals())
    store.log.commit = commit
    live.catch_up()
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())


def test_a_letter_parked_between_the_drop_and_the_erasure_quotes_nothing(open_store: Any, engine: str) -> None:
    """Settled 25: the error of a handler that failed at that moment may quote the payload."""
    store = open_store(engine)
    fill(store, 10)
    (first,) = store.read_stream("order/1", limit=1)
    commit = store.log.commit

    def refuse(event: Event) -> None:
        raise ValueError(f"cannot use {event.data}")

    def beside(transactions: Any) -> Any:
        Consumer(store, "mailer", refuse, attempts=1).catch_up(until=first.position)
        assert "cannot use" in store.log.dead_letters.load("mailer", first.position).reason
        return commit(transactions)

    store.log.commit = beside
    upkeep.erase(store, "order/1", 1)
    store.log.commit = commit
    assert store.log.dead_letters.load("mailer", first.position).reason == "the event was erased"


class Killed(BaseException):
    """The process was killed."""


@pytest.mark.parametrize("run", [lambda store, made: Live(store, made).catch_up(), run_inline], ids=["live", "inline"])
def test_a_process_that_dies_right_after_the_erasure_leaves_no_state(open_store: Any, engine: str, run: Any) -> None:
    """Settled 25: states are dropped before the commit, and not folded again within it."""
    store = open_store(engine)
    fill(store, 10)
    run(store, OrderTotals())
    commit = store.log.commit

    def dying(transactions: Any) -> Any:
        commit(transactions)
        raise Killed

    store.log.commit = dying
    with pytest.raises(Killed):
        upkeep.erase(store, "order/1", 1)
    assert "order/1" not in stored(store, OrderTotals())


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_a_runner_before_a_process_that_dies_right_after_the_erasure_leaves_no_state(
    open_store: Any, engine: str
) -> None:
    """Settled 25: if log and rows share a database, states are dropped in the commit that erases."""
    store = open_store(engine)
    fill(store, 10)
    live = Live(store, OrderTotals())
    live.catch_up()
    commit = store.log.commit

    def dying(transactions: Any) -> Any:
        live.catch_up()
        assert "order/1" in stored(store, OrderTotals())
        commit(transactions)
        raise Killed

    store.log.commit = dying
    with pytest.raises(Killed):
        upkeep.erase(store, "order/1", 1)
    assert "order/1" not in stored(store, OrderTotals())
    store.log.commit = commit
    live.catch_up()
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())


@pytest.mark.parametrize("dies_in", ["_write", "apply_noted_drops"], ids=["before the commit", "after the commit"])
def test_what_a_runner_made_before_a_crash_of_a_file_log_is_dropped_when_it_is_opened(
    open_store: Any, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    """Settled 25: the rows of a file log are stored next to it; pending drops are recorded for the next writer."""
    store = open_store("files")
    fill(store, 10)
    live = Live(store, OrderTotals())
    live.catch_up()

    def dying(*given: Any) -> Any:
        raise Killed

    def beside(transactions: Any) -> Any:
        store.log.note_drops = note
        note(transactions)
        live.catch_up()
        monkeypatch.setattr(store.log, dies_in, dying)

    note = store.log.note_drops
    monkeypatch.setattr(store.log, "note_drops", beside)
    with pytest.raises(Killed):
        upkeep.erase(store, "order/1", 1)
    assert "order/1" in stored(store, OrderTotals())
    monkeypatch.undo()
    store.close()
    store = open_store("files")
    erased = store.read_stream("order/1", limit=1)[0].payload is None
    assert erased == (dies_in == "apply_noted_drops")
    assert ("order/1" in stored(store, OrderTotals())) != erased
    live = Live(store, OrderTotals())
    live.catch_up()
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())
    with closing(sqlite3.connect(f"{store.log.url.removeprefix('files:')}/beside.db")) as raw:
        assert raw.execute("SELECT count(*) FROM pending_drops").fetchone() == (0,)


def test_an_inline_projection_folds_again_without_the_payload(open_store: Any, engine: str) -> None:
    """Settled 25: not in the commit that erases, since the log still has the payload, but in the next one."""
    store = open_store(engine)
    run_inline(store, OrderTotals())
    fill(store, 10)
    upkeep.erase(store, "order/1", 1)
    assert "order/1" not in stored(store, OrderTotals())
    store.append("order/2", order_event(PLACED))
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())
