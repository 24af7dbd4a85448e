"""The merged order of communities: by lamport, then id, then link, as bytes that sort in that order."""

from __future__ import annotations

from tallystick.event.model import Event

_LAMPORT_BYTES = 8
MARK_BYTES = _LAMPORT_BYTES + 16 + 32


def mark_of(event: Event) -> bytes | None:
    """The mark of an event: it sorts as the event does in the merged order. None if the event has no lamport."""
    lamport = event.metadata.get("lamport")
    if type(lamport) is not int:
        return None
    return lamport.to_bytes(_LAMPORT_BYTES, "big") + event.id + event.link
