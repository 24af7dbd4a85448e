"""Projections for tests: a small shop that uses every kind of key and order."""

from __future__ import annotations

from typing import Any

from tallystick import Event, NewEvent
from tallystick.projections import Projection

PLACED = "order.placed"
PAID = "order.paid"
NOTED = "order.noted"
TYPES = (PLACED, PAID, NOTED)


def order_event(type_: str, *, customer: Any = "c1", amount: int = 1, lamport: int | None = None) -> NewEvent:
    """An event of the shop."""
    meta = None if lamport is None else {"lamport": lamport}
    return NewEvent(type_, {"customer": customer, "amount": amount}, meta=meta)


class OrderTotals(Projection):
    """The amounts placed and paid in each stream, and a trace that shows the order of events."""

    types = (PLACED, PAID)

    def initial(self) -> Any:
        return {"placed": 0, "paid": 0, "trace": ""}

    def apply(self, state: Any, event: Event) -> Any:
        amount = 0 if event.data is None else event.data["amount"]
        side = "placed" if event.type == PLACED else "paid"
        trace = f"{state['trace']}{side[1]}{event.seq}{'x' if event.erased else ''}"[-200:]
        return state | {side: state[side] + amount, "trace": trace}


class CustomerBalance(Projection):
    """What each customer still owes, over all streams."""

    types = (PLACED, PAID)
    key = "payload.customer"

    def initial(self) -> Any:
        return {"open": 0, "events": []}

    def apply(self, state: Any, event: Event) -> Any:
        sign = 1 if event.type == PLACED else -1
        events = [*state["events"], f"{event.stream}#{event.seq}"][-20:]
        return {"open": state["open"] + sign * event.data["amount"], "events": events}


class MergedFeed(Projection):
    """The amounts of each customer in the order of the lamport clock, not of arrival."""

    types = (PLACED,)
    key = "payload.customer"
    order = "lamport"

    def initial(self) -> Any:
        return []

    def apply(self, state: Any, event: Event) -> Any:
        return [*state, event.data["amount"]]
