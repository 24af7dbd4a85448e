"""Corrections and backfills: new events that are labelled as such in their meta.

No recorded event changes. A correction names the event that it corrects. A backfill names its batch; its ids are made
from that name, so a batch that is appended twice is recorded once.
"""

from __future__ import annotations

import hashlib
from typing import Any

from tallystick.event import ids, names
from tallystick.event.model import Event, NewEvent

LABEL = "label"
CORRECTION = "correction"
BACKFILL = "backfill"


def correction(
    of: Event, type: str, payload: Any, *, reason: str, meta: dict[str, Any] | None = None, version: int | None = None
) -> NewEvent:
    """A new event that corrects a recorded one; append it to the same stream."""
    tags = {LABEL: CORRECTION, "corrects": ids.to_text(of.id), "reason": names.check_label("reason", reason)}
    return NewEvent(type, payload, meta=_tagged(meta, tags) | {"causation_id": ids.to_text(of.id)}, version=version)


def backfill(
    batch: str,
    number: int,
    type: str,
    payload: Any,
    *,
    time: int,
    meta: dict[str, Any] | None = None,
    version: int | None = None,
) -> NewEvent:
    """The event with this number in a batch of events that were not recorded at their time."""
    tags = {LABEL: BACKFILL, "batch": names.check_label("batch", batch), "number": str(number)}
    return NewEvent(type, payload, meta=_tagged(meta, tags), version=version, id=_id(batch, number, time), time=time)


def _tagged(meta: dict[str, Any] | None, tags: dict[str, str]) -> dict[str, Any]:
    known = dict(meta or {})
    return known | {"tags": known.get("tags", {}) | tags}


def _id(batch: str, number: int, time: int) -> bytes:
    """A UUIDv7 with the event's time; the rest is a hash of the batch's name and the number."""
    rest = hashlib.sha256(f"{batch}\n{number}".encode()).digest()
    millis = (time // 1_000_000).to_bytes(6, "big")
    return millis + bytes([0x70 | rest[0] & 0x0F, rest[1], 0x80 | rest[2] & 0x3F]) + rest[3:10]
