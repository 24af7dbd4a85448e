"""Erasing a payload, and what projections had made of it."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.projections import Live, ViewReader, rebuild, run_inline
from tallystick.testing import upkeep
from tallystick.testing.contract.projections import fill, folded, stored
from tallystick.testing.shop import PLACED, CustomerBalance, OrderTotals, order_event


def test_a_key_of_which_no_event_is_left_has_no_row(open_store: Any, engine: str) -> None:
    """Settled 25: as if the event had never had that key, live and rebuilt alike."""
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
    """Settled 25: what was folded again from the payload in that moment is dropped once more."""
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


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("run", [lambda store, made: Live(store, made).catch_up(), run_inline], ids=["live", "inline"])
def test_a_process_that_dies_right_after_the_erasure_leaves_no_state(open_store: Any, engine: str, run: Any) -> None:
    """Settled 25: states are dropped before the commit already, and not folded again within it."""
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


def test_an_inline_projection_folds_again_without_the_payload(open_store: Any, engine: str) -> None:
    """Settled 25: not in the commit that erases, where the log still shows it, but in the next one."""
    store = open_store(engine)
    run_inline(store, OrderTotals())
    fill(store, 10)
    upkeep.erase(store, "order/1", 1)
    assert "order/1" not in stored(store, OrderTotals())
    store.append("order/2", order_event(PLACED))
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())
