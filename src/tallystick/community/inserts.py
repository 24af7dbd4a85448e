"""What is said of every insert: a line in the log of the process, and whatever else listens (a service counts them).

The line has ids, names and numbers, and never what an event says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from tallystick.community.entry import FeedEntry
from tallystick.event import ids

LOCAL, RECEIVED = "local", "received"

Inserted: TypeAlias = "Callable[[FeedEntry, str, str | None], None]"
"""The event, where it came from, and the code why it does not count; None if it counts."""

logger = logging.getLogger("tallystick.community")


def log_line(entry: FeedEntry, origin: str, code: str | None) -> None:
    """A line at INFO, with its fields where the service's formatter looks for them."""
    if logger.isEnabledFor(logging.INFO):
        fields = {
            "event_id": ids.to_ulid(entry.id),
            "type": entry.type,
            "author": entry.author,
            "seq": entry.seq,
            "lamport": entry.lamport,
            "origin": origin,
            "code": code or "counts",
        }
        logger.info("an event was inserted", extra={"tally_fields": fields})
