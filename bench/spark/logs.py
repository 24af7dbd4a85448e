"""The logs that are measured: orders of about 350 bytes in streams of a hundred, and a projection over them."""

from __future__ import annotations

import os
from typing import Any

import tallystick
from bench import payloads
from tallystick import NewEvent
from tallystick.projections import Projection
from tallystick.store.prepare import Part, Request

STREAM_EVENTS = 100
GROUP = 10
CUSTOMERS = 5000


class Turnover(Projection):
    """What each customer ordered: a few dictionary operations an event, as projections are."""

    types = (payloads.TYPE,)
    key = "stream"

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"orders": 0, "bytes": 0, "last": 0}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One order more."""
        data = event.data
        return {"orders": found["orders"] + 1, "bytes": found["bytes"] + len(data["note"]), "last": event.seq}


def build(url: str, events: int) -> None:
    """Fill a log, in commits of a thousand events over ten streams. No two payloads are alike.

    What the disk has still to write is written before anything is measured.
    """
    bodies = payloads.orders(1000)
    streams = max(events // STREAM_EVENTS, 1)
    with tallystick.open(url, secrets="off") as store:
        done = 0
        while done < events:
            requests = []
            for number in range(GROUP):
                stream = f"order/o{(done // STREAM_EVENTS + number) % streams}"
                first = number * STREAM_EVENTS
                chosen = [
                    NewEvent(payloads.TYPE, body | {"order_id": f"ord_{done + at:08}"})
                    for at, body in enumerate(bodies[first : first + STREAM_EVENTS], first)
                ]
                requests.append(Request([Part(stream, chosen)]))
            for outcome in store.submit(requests):
                assert not isinstance(outcome, Exception), outcome
            done += GROUP * STREAM_EVENTS
    os.sync()
