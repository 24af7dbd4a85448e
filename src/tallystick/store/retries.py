"""Retries by id: whether a stored event is the one that an append gives again."""

from __future__ import annotations

from typing import Any

from tallystick.event import canonical
from tallystick.event.model import Draft, Event
from tallystick.store.commit import Write


def difference(write: Write, index: int, draft: Draft, event: Event) -> str | None:
    """How a stored event differs from a draft of the same id in what its author gave; None if it does not."""
    type_, version, _, time, _, meta, checksum, signature = draft
    if event.stream != write.stream:
        return f"it is in stream {event.stream!r}"
    if (event.type, event.version) != (type_, version):
        return f"it has type {event.type!r} version {event.version}"
    if event.checksum != checksum:
        return "it has another payload"
    if index in write.times_given and event.time != time:
        return f"it has time {event.time}"
    if event.signature != signature:
        return "it has another signature"
    if event.meta != meta and not _same_as_given(write, index, meta, event.meta):
        return "it has other meta"
    return None


def _same_as_given(write: Write, index: int, given: bytes, stored: bytes) -> bool:
    """Whether two metas agree in what the author gave, without what was filled in or assigned."""
    left_out = set(write.filled.get(index, ()))
    if any(mark.index == index and mark.seq is None for mark in write.sources):
        left_out.add("source_seq")
    return _without(given, left_out) == _without(stored, left_out)


def _without(meta: bytes, keys: set[str]) -> bytes:
    """The canonical bytes without some keys: bytes, because 1, 1.0 and True are equal in Python."""
    left: dict[str, Any] = {key: value for key, value in canonical.decode(meta).items() if key not in keys}
    return canonical.encode(left, what="meta")
