"""How many bytes on disk an event costs, all files of the closed store counted, index and all."""

from __future__ import annotations

from collections.abc import Iterator

import tallystick
from bench import payloads
from bench.harness import Bar, Row, Spec, measures
from bench.workshop import Workshop, bytes_on_disk, remove
from tallystick import NewEvent

KILOBYTE = Spec(
    name="files: disk bytes over canonical payload and meta bytes, 1 KB payloads",
    unit="x",
    bar=Bar("value", "<=", 1.2),
    note="batches of 1,000; sizes of all files after closing",
    covers=("LH-18",),
)
USUAL = Spec(
    name="files: disk bytes over canonical payload and meta bytes, 350-byte payloads",
    unit="x",
    note="batches of 1,000; the envelope (id, checksum, link, stream, type, time) weighs more on small events",
)
SINGLY = Spec(
    name="files: disk bytes over canonical payload and meta bytes, 1 KB payloads, one event a commit",
    unit="x",
    note="each commit is a frame with its own header and SHA-256",
)
_META = {"actor_type": "user", "actor_id": "usr_4711", "request_id": "req-0001"}


@measures(KILOBYTE, USUAL, SINGLY)
def disk(workshop: Workshop) -> Iterator[Row]:
    count = workshop.scale.sized
    yield KILOBYTE.row(_overhead(workshop, count=count, batch=1000, bytes_min=1024))
    yield USUAL.row(_overhead(workshop, count=count, batch=1000, bytes_min=0))
    yield SINGLY.row(_overhead(workshop, count=count // 5, batch=1, bytes_min=1024))


def _overhead(workshop: Workshop, *, count: int, batch: int, bytes_min: int) -> float:
    path = workshop.place("files")
    events = [NewEvent(payloads.TYPE, body, meta=_META) for body in payloads.orders(count, bytes_min=bytes_min)]
    with tallystick.open(f"files:{path}") as store:
        for start in range(0, count, batch):
            store.append(f"order/{start // batch % 100}", events[start : start + batch])
        canonical = sum(len(event.payload or b"") + len(event.meta) for event in store.events())
    try:
        return bytes_on_disk(path) / canonical
    finally:
        remove(path)
