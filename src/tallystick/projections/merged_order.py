"""The merged order of communities: lamport, then id, then link. Bytes that sort as the order does."""

from __future__ import annotations

from tallystick.event.model import Event

_LAMPORT_BYTES = 8
MARK_BYTES = _LAMPORT_BYTES + 16 + 32


def mark_of(event: Event) -> bytes | None:
    """The place of an event in the merged order; None if it has no lamport."""
    lamport = event.metadata.get("lamport")
    if type(lamport) is not int:
        return None
    return lamport.to_bytes(_LAMPORT_BYTES, "big") + event.id + event.link
