"""Messages in order, and who has received and read them."""

from __future__ import annotations

from typing import Any

from tallystick.community.types import Event

SENT, DELIVERED, READ = "chat.message.sent", "chat.message.delivered", "chat.message.read"


class ChatView:
    """Messages by `author#seq`: an event id can be copied, a seq in a feed cannot."""

    types = (SENT, DELIVERED, READ)

    def __init__(self) -> None:
        self._messages: dict[str, dict[str, Any]] = {}
        self._order: list[str] = []

    def reset(self) -> None:
        """Forget everything."""
        self._messages, self._order = {}, []

    def apply(self, event: Event) -> None:
        """Apply one event. A receipt for an unknown message is ignored."""
        if event.event_type == SENT:
            key = f"{event.author}#{event.seq}"
            self._messages[key] = {"data": event.data, "delivered": [], "read": []}
            self._order.append(key)
            return
        named = event.data.get("message")
        message = self._messages.get(named) if isinstance(named, str) else None
        if message is None:
            return
        receipts = message["delivered" if event.event_type == DELIVERED else "read"]
        if event.author not in receipts:
            receipts.append(event.author)

    def live_state(self) -> dict[str, Any]:
        """The state itself, which changes with the next event."""
        return {"order": self._order, "messages": self._messages}

    def snapshot_state(self) -> dict[str, Any]:
        """The messages in order."""
        return {"order": list(self._order), "messages": {key: _copy(each) for key, each in self._messages.items()}}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Continue from a snapshot. Its state now belongs to this view."""
        self._order = state["order"]
        self._messages = state["messages"]


def _copy(message: dict[str, Any]) -> dict[str, Any]:
    return {"data": message["data"], "delivered": list(message["delivered"]), "read": list(message["read"])}
