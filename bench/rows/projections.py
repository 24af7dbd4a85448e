"""Keeping the rows of a projection current: events read, payloads decoded, states folded, rows stored and synced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tallystick
from bench import payloads
from bench.harness import Bar, Row, Samples, Spec, alternate, measures, rate
from bench.workshop import Workshop, fill
from tallystick import Event, Store
from tallystick.projections import Live, Projection, ViewReader, rebuild
from tallystick.testing.postgres import database

LIVE = Spec(
    name="sqlite: live projection into view rows",
    unit="events/s",
    bar=Bar("value", ">=", 20_000),
    note="keyed by customer in the payload; batches of 5,000 events, each one durable transaction",
    covers=("CP-08", "CP-13"),
)
SMALL = Spec(
    name="sqlite: live projection into view rows, batches of 100",
    unit="events/s",
    note="as above, an fsync every 100 events: what a runner does that keeps up with a busy writer",
    covers=("CP-13",),
)
REBUILT = Spec(
    name="sqlite: projection rebuilt in process",
    unit="events/s",
    note="from the first event into a new epoch, switch and fingerprint included",
    covers=("CP-08",),
)
SERVED = Spec(
    name="postgres: live projection into view rows",
    unit="events/s",
    bar=Bar("value", ">=", 20_000),
    note="the same projection; batches of 5,000 events, each one durable statement; the server shares the cores",
    covers=("CP-08", "CP-13"),
)
SERVED_SMALL = Spec(
    name="postgres: live projection into view rows, batches of 100",
    unit="events/s",
    note="as above, an fsync every 100 events",
    covers=("CP-13",),
)
SERVED_REBUILT = Spec(
    name="postgres: projection rebuilt in process",
    unit="events/s",
    note="from the first event into a new epoch, switch included",
    covers=("CP-08",),
)


class CustomerTotals(Projection):
    """What each customer ordered."""

    types = (payloads.TYPE,)
    key = "payload.customer_id"

    def initial(self) -> Any:
        return {"orders": 0, "total": 0, "last": ""}

    def apply(self, state: Any, event: Event) -> Any:
        order = event.data
        return {"orders": state["orders"] + 1, "total": state["total"] + order["total"], "last": order["order_id"]}


@measures(LIVE, SMALL, REBUILT)
def projections(workshop: Workshop) -> Iterator[Row]:
    with workshop.store("sqlite") as store:
        best = _measured(store, workshop)
    yield LIVE.row(best["live"].highest, note=best["live"].spread)
    yield SMALL.row(best["small"].highest, note=best["small"].spread)
    yield REBUILT.row(best["rebuilt"].highest, note=best["rebuilt"].spread)


@measures(SERVED, SERVED_SMALL, SERVED_REBUILT)
def on_a_server(workshop: Workshop) -> Iterator[Row]:
    with database() as url, tallystick.open(url) as store:
        best = _measured(store, workshop)
    yield SERVED.row(best["live"].highest, note=best["live"].spread)
    yield SERVED_SMALL.row(best["small"].highest, note=best["small"].spread)
    yield SERVED_REBUILT.row(best["rebuilt"].highest, note=best["rebuilt"].spread)


def _measured(store: Store, workshop: Workshop) -> dict[str, Samples]:
    count = workshop.scale.sized
    fill(store, count)
    return alternate(
        {
            "live": lambda: _from_scratch(store, count, batch_events=5000),
            "small": lambda: _from_scratch(store, count, batch_events=100),
            "rebuilt": lambda: rate(count, lambda: rebuild(store, CustomerTotals())),
        },
        rounds=workshop.scale.rounds,
    )


def _from_scratch(store: Store, count: int, *, batch_events: int) -> float:
    """The rate of a live runner that begins at position 0."""
    views = store.log.views
    for place in views.places():
        while views.discard(place.projection, place.epoch, limit=10_000, live=True):
            pass
    runner = Live(store, CustomerTotals(), batch_events=batch_events)
    found = rate(count, runner.catch_up)
    if ViewReader(store, "CustomerTotals").position() != store.head():
        raise RuntimeError("the rows are not at the head")
    return found
