"""Corrections and backfills: new events that are labelled as such in their meta.

No recorded event changes. A correction names the event that it corrects. A backfill names its batch; its ids are made
from that name, so a batch that is appended twice is recorded once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from tallystick.event import ids, names
from tallystick.event.model import Event, NewEvent
from tallystick.event.tags import KEY, normal

LABEL = "label"
CORRECTION = "correction"
BACKFILL = "backfill"


def correction(
    of: Event,
    type: str,
    payload: Any,
    *,
    reason: str,
    meta: dict[str, Any] | None = None,
    version: int | None = None,
    tags: Sequence[str] = (),
) -> NewEvent:
    """A new event that corrects a recorded one; append it to the same stream.

    If it has tags, its labels are tags too: `label:correction`. A reason is then at most 249 bytes.
    """
    labels = {LABEL: CORRECTION, "corrects": ids.to_text(of.id), "reason": names.check_label("reason", reason)}
    meta, tags = _labelled(meta, labels, tags)
    return NewEvent(type, payload, meta=meta | {"causation_id": ids.to_text(of.id)}, version=version, tags=tags)


def backfill(
    batch: str,
    number: int,
    type: str,
    payload: Any,
    *,
    time: int,
    meta: dict[str, Any] | None = None,
    version: int | None = None,
    tags: Sequence[str] = (),
) -> NewEvent:
    """The event with this number in a batch of events that were not recorded at their time.

    If it has tags, its labels are tags too: `label:backfill`.
    """
    labels = {LABEL: BACKFILL, "batch": names.check_label("batch", batch), "number": str(number)}
    meta, tags = _labelled(meta, labels, tags)
    id_ = _id(batch, number, time)
    return NewEvent(type, payload, meta=meta, version=version, id=id_, time=time, tags=tags)


def _labelled(
    meta: dict[str, Any] | None, labels: dict[str, str], tags: Sequence[str]
) -> tuple[dict[str, Any], Sequence[str]]:
    """The meta with labels, and the tags. Tags in the meta become tags of the event, which labels join."""
    known = dict(meta or {})
    given = known.pop(KEY, {})
    if not isinstance(given, dict):
        tags, given = [*normal(given), *tags], {}
    return known | {KEY: given | labels}, tags


def _id(batch: str, number: int, time: int) -> bytes:
    """A UUIDv7 with the event's time; the rest is a hash of the batch's name and the number."""
    rest = hashlib.sha256(f"{batch}\n{number}".encode()).digest()
    millis = (time // 1_000_000).to_bytes(6, "big")
    return millis + bytes([0x70 | rest[0] & 0x0F, rest[1], 0x80 | rest[2] & 0x3F]) + rest[3:10]
