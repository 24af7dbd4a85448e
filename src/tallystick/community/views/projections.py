"""The shipped views as projections: `tally project URL tallystick.community.views.projections:Chat`."""

from __future__ import annotations

from collections.abc import Callable

from tallystick.community.replay import MaterialisedView
from tallystick.community.roster import Roster
from tallystick.community.view_projection import ViewProjection
from tallystick.community.views.chat import ChatView
from tallystick.community.views.marketplace import MarketplaceView
from tallystick.community.views.members import MembersView


class Chat(ViewProjection):
    """Messages and receipts."""

    name = "community.chat"
    view_name = "chat"
    view_types = ChatView.types

    def make_view(self, roster: Callable[[], Roster]) -> MaterialisedView:
        """The view to fold."""
        return ChatView()


class Marketplace(ViewProjection):
    """Posts."""

    name = "community.marketplace"
    view_name = "marketplace"
    view_types = MarketplaceView.types

    def make_view(self, roster: Callable[[], Roster]) -> MaterialisedView:
        """The view to fold."""
        return MarketplaceView()


class Members(ViewProjection):
    """Members, roles and manifests."""

    name = "community.members"
    view_name = "members"
    view_types = MembersView.types

    def make_view(self, roster: Callable[[], Roster]) -> MaterialisedView:
        """The view to fold."""
        return MembersView(roster)
