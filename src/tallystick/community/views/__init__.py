"""The views that every node of a community keeps and puts into its snapshots: members, marketplace, chat."""

from __future__ import annotations

from collections.abc import Callable

from tallystick.community.replay import MaterialisedView
from tallystick.community.roster import Roster
from tallystick.community.views.chat import ChatView
from tallystick.community.views.marketplace import MarketplaceView
from tallystick.community.views.members import MembersView

__all__ = ["ChatView", "MarketplaceView", "MembersView", "shipped_views"]


def shipped_views(roster: Callable[[], Roster]) -> dict[str, tuple[MaterialisedView, tuple[str, ...]]]:
    """The three views by name, with their types, for `ReplayEngine.register_all`."""
    return {
        "chat": (ChatView(), ChatView.types),
        "marketplace": (MarketplaceView(), MarketplaceView.types),
        "members": (MembersView(roster), MembersView.types),
    }
