"""Keeping the rows of a projection current: events read, payloads decoded, states folded, rows stored and synced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench import payloads
from bench.harness import Bar, Row, Spec, alternate, measures, rate
from bench.workshop import Workshop, fill
from tallystick import Event, Store
from tallystick.projections import Live, Projection, ViewReader, rebuild

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
    count = workshop.scale.sized
    with workshop.store("sqlite") as store:
        fill(store, count)
        best = alternate(
            {
                "live": lambda: _from_scratch(store, count, batch_events=5000),
                "small": lambda: _from_scratch(store, count, batch_events=100),
                "rebuilt": lambda: rate(count, lambda: rebuild(store, CustomerTotals())),
            },
            rounds=workshop.scale.rounds,
        )
    yield LIVE.row(best["live"].highest, note=best["live"].spread)
    yield SMALL.row(best["small"].highest, note=best["small"].spread)
    yield REBUILT.row(best["rebuilt"].highest, note=best["rebuilt"].spread)


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
