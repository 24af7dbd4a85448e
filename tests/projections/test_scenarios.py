"""The test kit for projections: it accepts what holds, and notices what does not."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import Event, NewEvent, errors
from tallystick.projections import Projection
from tallystick.testing.projections import Scenario, check_fold
from tallystick.testing.shop import PAID, PLACED, CustomerBalance, order_event


def test_given_when_then() -> None:
    """CP-08: only changed rows are compared."""
    scenario = Scenario(CustomerBalance()).given(order_event(PLACED, customer="a"), order_event(PLACED, customer="b"))
    scenario.when(order_event(PAID, customer="b")).then({"b": {"open": 0, "events": ["test/1#2", "test/1#3"]}})
    with pytest.raises(AssertionError):
        scenario.then({})
    scenario.then_refused(errors.ProjectionKeyInvalid, order_event(PLACED, customer=None))
    with pytest.raises(AssertionError, match="accepted the events"):
        Scenario(CustomerBalance()).then_refused(errors.ProjectionFailed, order_event(PLACED))


class FirstKey(Projection):
    """Depends on the order of keys, which JSON does not keep."""

    types = ("t",)

    def initial(self) -> Any:
        return {"z": 0}

    def apply(self, state: Any, event: Event) -> Any:
        return state | {"a": next(iter(state))}


class Identity(Projection):
    """Depends on object identity."""

    types = ("t",)

    def initial(self) -> Any:
        shared: list[int] = []
        return {"one": shared, "two": shared, "n": 0}

    def apply(self, state: Any, event: Event) -> Any:
        state["one"].append(event.seq)
        return state


@pytest.mark.parametrize(("projection", "seq"), [(FirstKey(), 2), (Identity(), 2)], ids=["key order", "identity"])
def test_an_impure_projection_is_found_at_its_first_event(projection: Projection, seq: int) -> None:
    """CP-08: events are folded twice, once through JSON; the first event where the results differ is named."""
    scenario = Scenario(projection)
    scenario.store.append("test/1", [NewEvent("t", {}), NewEvent("t", {}), NewEvent("t", {})])
    with pytest.raises(errors.FoldDiverged) as found:
        check_fold(projection, scenario.store.events())
    assert found.value.seq == seq


def test_a_state_that_is_not_json_is_refused() -> None:
    """CP-08: refused by name, with the event."""

    class Tuple(FirstKey):
        def apply(self, state: Any, event: Event) -> Any:
            return {"t": (1, 2)}

    with pytest.raises(errors.NotCanonical):
        Scenario(Tuple()).when(NewEvent("t", {}))
