"""The members of a community, their roles, and the manifest of each node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tallystick.community.roster import Roster
from tallystick.community.types import MEMBERSHIP_TYPES, ROLES, Event

MANIFEST = "node.manifest.updated"


class MembersView:
    """Roles come from the roster. A manifest is the last one that the node wrote."""

    types = (*sorted(MEMBERSHIP_TYPES), MANIFEST)

    def __init__(self, roster: Callable[[], Roster]) -> None:
        self._roster = roster
        self._manifests: dict[str, Any] = {}

    def reset(self) -> None:
        """Forget everything."""
        self._manifests = {}

    def apply(self, event: Event) -> None:
        """Keep the newest manifest of each node."""
        if event.event_type == MANIFEST:
            self._manifests[event.author] = event.data

    def snapshot_state(self) -> dict[str, Any]:
        """Node -> role and manifest. Revoked members have no role."""
        ranks = self._roster().now()
        return {
            node: {"role": ROLES.get(ranks.get(node, 0)), "manifest": self._manifests.get(node)}
            for node in sorted(ranks.keys() | self._manifests.keys())
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Continue from a snapshot. Roles follow from the acts that it carries."""
        self._manifests = {node: facts["manifest"] for node, facts in state.items() if facts["manifest"] is not None}
