"""The views that are shipped: members, marketplace, chat."""

from __future__ import annotations

from tallystick.community.views.chat import ChatView
from tallystick.community.views.marketplace import MarketplaceView
from tallystick.community.views.members import MembersView

__all__ = ["ChatView", "MarketplaceView", "MembersView"]
