"""Pruning, seen from projections."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import Event, errors, state
from tallystick.projections import Live, ViewReader, rebuild
from tallystick.store.facts import PRUNED, Pruned, parse, stream_about
from tallystick.testing.contract.projections import fill, stored
from tallystick.testing.shop import CustomerBalance, OrderTotals


class Total:
    """A reducer that counts."""

    name = "count"
    version = 1

    def initial(self) -> Any:
        return 0

    def apply(self, state: Any, event: Event) -> Any:
        return state + 1


def test_a_prune_waits_for_projections_and_names_what_is_lost(open_store: Any, engine: str) -> None:
    """Settled 17: refused before a projection that is behind; accepted, its fact lists who cannot be rebuilt."""
    store = open_store(engine)
    fill(store)
    reducer = state.as_reducer(Total())
    live = Live(store, OrderTotals(), batch_events=3)
    live.step()
    with pytest.raises(errors.PruneRefused, match="projection 'OrderTotals' is at position"):
        state.prune(store, "order/1", before=4, reducers=[reducer], snapshot=True, accept=True)
    live.catch_up()
    with pytest.raises(errors.PruneRefused, match="projection OrderTotals"):
        state.prune(store, "order/1", before=4, reducers=[reducer], snapshot=True)
    before = stored(store, OrderTotals())
    assert state.prune(store, "order/1", before=4, reducers=[reducer], snapshot=True, accept=True) == 3
    (fact,) = [event for event in store.read_stream(stream_about("order/1")) if event.type == PRUNED]
    assert "projection OrderTotals" in parse(fact, Pruned).lost
    assert stored(store, OrderTotals()) == before
    for refused in (lambda: rebuild(store, OrderTotals()), lambda: Live(store, CustomerBalance()).catch_up()):
        with pytest.raises(errors.HistoryPruned):
            refused()
    fill(store, 5, first=30)
    live.catch_up()
    assert ViewReader(store, "OrderTotals").get("order/1")["trace"].endswith("a7")
