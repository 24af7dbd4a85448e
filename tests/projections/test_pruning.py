"""Pruning and projections."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import Event, NewEvent, errors, state
from tallystick.projections import Live, ViewReader, rebuild
from tallystick.store.facts import PRUNED, Pruned, parse, stream_about
from tallystick.testing import upkeep
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
    """Settled 17: refused if a projection is behind; if accepted, the fact lists projections that cannot be rebuilt."""
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


def test_a_prune_in_the_middle_of_a_step_does_no_harm(open_store: Any, engine: str) -> None:
    """The last event of a page may be pruned after the page was read: the place advances past it nevertheless."""
    store = open_store(engine)
    end = fill(store, 6)
    for _ in range(3):
        end = store.append("note/1", NewEvent("note.written", {})).position
    live, read = Live(store, OrderTotals()), store.read

    def read_and_prune(**options: Any) -> Any:
        page = read(**options)
        upkeep.prune(store, "note/1", 3)
        return page

    store.read = read_and_prune
    assert live.step(until=end) == end
    store.read = read
    assert live.catch_up() == store.head()
    assert sorted(stored(store, OrderTotals())) == ["order/0", "order/1", "order/3", "order/4"]
