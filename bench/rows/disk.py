"""How many bytes on disk an event costs: in a store that has sealed nothing yet, and in its sealed segments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tallystick
from bench import payloads
from bench.harness import Bar, Row, Spec, measures
from bench.workshop import Workshop, bytes_on_disk, remove
from tallystick import NewEvent, Store

SIZES, COMMITS = (100, 350, 1024), (1, 1000)
_META = {"actor_type": "user", "actor_id": "usr_4711", "request_id": "req-0001"}
_OPEN_BARS = {(350, 1): 1.35, (1024, 1000): 1.2}
_NAME = "files: disk bytes over canonical payload and meta bytes, {} bytes, commits of {:,}, {}"


def _spec(size: int, commit: int, state: str, figure: float | None, note: str) -> Spec:
    bar = None if figure is None else Bar("value", "<=", figure)
    return Spec(name=_NAME.format(size, commit, state), unit="x", bar=bar, note=note, covers=("LH-18",))


OPEN = {
    (size, commit): _spec(
        size, commit, "open", _OPEN_BARS.get((size, commit)), "all files after closing, the index too"
    )
    for size in SIZES
    for commit in COMMITS
}
SEALED = {
    (size, commit): _spec(size, commit, "sealed", 1.2, "a sealed segment, compressed, and its index")
    for size in SIZES
    for commit in COMMITS
}


@measures(*OPEN.values(), *SEALED.values())
def disk(workshop: Workshop) -> Iterator[Row]:
    for specs, measured in ((OPEN, _open), (SEALED, _sealed)):
        for (size, commit), spec in specs.items():
            events = drafts(workshop.scale.sized // (5 if commit == 1 else 1), size)
            yield spec.row(measured(workshop.place("files"), events, commit))


def drafts(count: int, size: int) -> list[NewEvent]:
    """Events with payloads of about this size."""
    bodies = payloads.small(count) if size < 350 else payloads.orders(count, bytes_min=size if size > 350 else 0)
    return [NewEvent(payloads.TYPE, body, meta=_META) for body in bodies]


def _open(path: Path, events: list[NewEvent], commit: int) -> float:
    with tallystick.open(f"files:{path}") as store:
        canonical = _fill(store, events, commit)
    try:
        return bytes_on_disk(path) / canonical
    finally:
        remove(path)


def _sealed(path: Path, events: list[NewEvent], commit: int) -> float:
    with tallystick.open(f"files:{path}", compress_bytes_min=1) as store:
        canonical = _fill(store, events, commit)
        store.log._seal()  # type: ignore[attr-defined]
        store.log._compressor.wait()  # type: ignore[attr-defined]
        if store.report().facts["compressed_segments"] != 1:
            raise RuntimeError("the sealed segment is not compressed")
    try:
        files = [file for file in path.rglob("2*") if file.suffix in (".log", ".idx")]
        return sum(file.stat().st_size for file in files) / canonical
    finally:
        remove(path)


def _fill(store: Store, events: list[NewEvent], commit: int) -> int:
    """Append the events; returns the canonical bytes of what is there."""
    for start in range(0, len(events), commit):
        store.append(f"order/{start // commit % 100}", events[start : start + commit])
    return sum(len(event.payload or b"") + len(event.meta) for event in store.events())
