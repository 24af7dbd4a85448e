"""Posts that members offer. Only the author can create, change and end a post."""

from __future__ import annotations

from typing import Any

from tallystick.community.types import Event

CREATED, UPDATED, EXPIRED = "market.post.created", "market.post.updated", "market.post.expired"


class MarketplaceView:
    """Posts by `author/post`. The key has the author, so that nobody can change the post of another."""

    types = (CREATED, UPDATED, EXPIRED)

    def __init__(self) -> None:
        self._posts: dict[str, dict[str, Any]] = {}

    def reset(self) -> None:
        """Forget everything."""
        self._posts = {}

    def apply(self, event: Event) -> None:
        """Apply one event. It is ignored if it is not about a post of its author."""
        label = event.data.get("post")
        if not isinstance(label, str):
            return
        key = f"{event.author}/{label}"
        if event.event_type == CREATED:
            self._posts.setdefault(key, {"fields": _fields(event), "open": True, "since": event.lamport, "edits": 0})
            return
        post = self._posts.get(key)
        if post is None or not post["open"]:
            return
        if event.event_type == UPDATED:
            post["fields"] = post["fields"] | _fields(event)
            post["edits"] += 1
        else:
            post["open"] = False

    def live_state(self) -> dict[str, Any]:
        """The state itself, which changes with the next event."""
        return self._posts

    def snapshot_state(self) -> dict[str, Any]:
        """The posts, open and closed."""
        return {key: post | {"fields": dict(post["fields"])} for key, post in self._posts.items()}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Continue from a snapshot. Its state now belongs to this view."""
        self._posts = state


def _fields(event: Event) -> dict[str, Any]:
    return {name: value for name, value in event.data.items() if name != "post"}
