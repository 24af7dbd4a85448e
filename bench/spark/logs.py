"""The logs that are measured: orders of about 350 bytes in streams of a hundred, and a projection over them."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame

import tallystick
from bench import payloads
from tallystick import NewEvent
from tallystick.projections import Projection
from tallystick.store.prepare import Part, Request

STREAM_EVENTS = 100
GROUP = 10
CUSTOMERS = 5000


class Turnover(Projection):
    """The orders of each customer: a few dictionary operations per event, like a usual projection."""

    types = (payloads.TYPE,)
    key = "stream"

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"orders": 0, "bytes": 0, "last": 0}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One order more."""
        data = event.data
        return {"orders": found["orders"] + 1, "bytes": found["bytes"] + len(data["note"]), "last": event.seq}


class Log(msgspec.Struct, frozen=True):
    """A log of this many events, and the location of its archive."""

    events: int
    url: str
    place: Path


def nowhere(table: DataFrame) -> None:
    """Compute every row and discard it."""
    table.write.format("noop").mode("overwrite").save()


def few_streams(number: int) -> str:
    """Ten streams."""
    return f"order/o{number // STREAM_EVENTS % 10}"


def many_streams(number: int) -> str:
    """A stream for each event."""
    return f"order/o{number}"


def hot_stream(number: int) -> str:
    """One stream with nine tenths of all events."""
    return f"order/o{number}" if number // STREAM_EVENTS % 10 == 0 else "order/hot"


def build(url: str, events: int, stream_of: Callable[[int], str] | None = None) -> None:
    """Fill a log, in commits of a thousand events. No two payloads are alike.

    Events are in streams of a hundred, unless `stream_of` names the stream of each. Pending writes of the disk are done
    before anything is measured.
    """
    if stream_of is not None:
        _build(url, events, stream_of)
        return
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


def _build(url: str, events: int, stream_of: Callable[[int], str]) -> None:
    bodies = payloads.orders(1000)
    with tallystick.open(url, secrets="off") as store:
        for done in range(0, events, len(bodies)):
            numbered = [
                (stream_of(done + at), body | {"order_id": f"ord_{done + at:08}"}) for at, body in enumerate(bodies)
            ]
            parts = groupby(numbered, key=itemgetter(0))
            drafts = [Part(stream, [NewEvent(payloads.TYPE, body) for _, body in part]) for stream, part in parts]
            for outcome in store.submit([Request([part]) for part in drafts]):
                assert not isinstance(outcome, Exception), outcome
    os.sync()
