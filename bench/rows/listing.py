"""Listing every stream of a log that has many."""

from __future__ import annotations

import time
from collections.abc import Iterator

import tallystick
from bench import payloads
from bench.harness import Bar, Row, Spec, alternate, measures
from bench.workshop import Workshop, url
from tallystick import NO_STREAM, NewEvent

COMMIT = 1000
PAGE = 10_000

LISTING = Spec(
    name="files: listing 1,000,000 streams",
    unit="streams/s",
    against="sqlite",
    bar=Bar("ratio", ">=", 0.2),
    note="one event in each; pages of 10,000 by a new handle; SQLite reads them from one index",
    covers=("LH-18",),
)


@measures(LISTING)
def listing(workshop: Workshop) -> Iterator[Row]:
    count = workshop.scale.large
    urls = {engine: _filled(workshop, engine, count) for engine in ("files", "sqlite")}
    turns = {engine: (lambda url=url: _rate(url, count)) for engine, url in urls.items()}
    best = alternate(turns, rounds=3)
    note = workshop.scale.large_note.replace("events", "streams")
    yield LISTING.row(best["files"].highest, best["sqlite"].highest, note=f"{best['files'].spread}; {note}".strip("; "))


def _filled(workshop: Workshop, engine: str, count: int) -> str:
    place, body = url(engine, workshop.place(engine)), payloads.orders(1)[0]
    with tallystick.open(place, secrets="off") as store:
        for first in range(0, count, COMMIT):
            parts = [
                (f"order/{first + number}", [NewEvent(payloads.TYPE, body)], NO_STREAM) for number in range(COMMIT)
            ]
            store.append_all(parts)
    return place


def _rate(place: str, count: int) -> float:
    began = time.perf_counter()
    with tallystick.open(place, readonly=True) as store:
        listed, after = 0, ""
        while page := store.streams(after=after, limit=PAGE):
            listed += sum(info.stream.startswith("order/") for info in page)
            after = page[-1].stream
    if listed != count:
        raise RuntimeError(f"{listed:,} streams were listed, and {count:,} are there")
    return count / (time.perf_counter() - began)
