"""The reducer that is always available. It overlays the keys of all payloads, so that each stream has a state."""

from __future__ import annotations

from typing import Any

from tallystick.event.model import Event
from tallystick.state import reducer


@reducer(name="merge", version=1)
def merge(state: dict[str, Any], event: Event) -> dict[str, Any]:
    """The state with what the event says now; an erased event says nothing."""
    return state | (event.data or {})
