"""The code of a small shop, as the server under test loads it: a reducer, a slow projection, a workflow."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tallystick.event.model import Event
from tallystick.projections import Projection
from tallystick.runs import Work, Workflow
from tallystick.state import reducer

PACE = "TALLY_TEST_PACE"


@reducer(name="order", version=1, kinds=("order",))
def order(state: dict[str, Any], event: Event) -> dict[str, Any]:
    """The state of an order: its items, its price, and where it is."""
    given = event.data or {}
    if event.type == "order.placed":
        return {"customer": given["customer"], "items": given["items"], "cents": given["cents"], "status": "placed"}
    if event.type == "order.item_added":
        return state | {"items": [*state["items"], given["item"]], "cents": state["cents"] + given["cents"]}
    return state | {"status": event.type.partition(".")[2]} | ({"parcel": given["parcel"]} if "parcel" in given else {})


class Spending(Projection):
    """What each customer spends. A pace in the environment slows it down, so that progress is visible."""

    version = 2
    types = ("order.placed",)
    key = "payload.customer"

    def initial(self) -> dict[str, int]:
        """Nothing yet."""
        return {"orders": 0, "cents": 0}

    def apply(self, state: dict[str, int], event: Event) -> dict[str, int]:
        """Add one order."""
        pace = Path(os.environ[PACE]) if PACE in os.environ else None
        if pace is not None and pace.exists():
            time.sleep(float(pace.read_text() or 0))
        return {"orders": state["orders"] + 1, "cents": state["cents"] + event.data["cents"]}


week = Workflow("week")


@week.node(outputs=["orders.json"])
def collect(work: Work) -> None:
    """Collect the orders of the week."""
    work.write("orders.json", "[1, 2, 3]")


@week.node(inputs=["orders.json"], outputs=["totals.json"])
def add_up(work: Work) -> None:
    """Add them up."""
    work.write("totals.json", "{}")


@week.node(inputs=["orders.json"], outputs=["labels.txt"])
def label(work: Work) -> None:
    """Write the labels of the parcels."""
    work.write("labels.txt", "a\n")


@week.node(inputs=["totals.json", "labels.txt"], outputs=["report.txt"])
def report(work: Work) -> None:
    """Report; this week the printer is out of ink."""
    raise RuntimeError("the printer is out of ink")
