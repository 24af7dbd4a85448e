"""Communities: signed events of many authors, one feed each, and gossip that converges.

A node is handed a store (profile `community`) and never opens one. docs/community.md tells the story.
"""

from __future__ import annotations

from tallystick.community.fanout import Fanout
from tallystick.community.floors import Base
from tallystick.community.identity import KeyPair
from tallystick.community.lamport import LamportClock
from tallystick.community.log import EventLog
from tallystick.community.messages import HeadsReport
from tallystick.community.own_head import OwnHead
from tallystick.community.proposals import endorse_floors, propose_floor
from tallystick.community.replay import MaterialisedView, ReplayEngine
from tallystick.community.replica import Replica
from tallystick.community.service import SyncServer
from tallystick.community.snapshot import (
    Snapshot,
    SnapshotStore,
    build_snapshot,
    declare_floor,
    restore_from_snapshot,
)
from tallystick.community.sync import HttpClient, Peer, SyncClient, SyncResult
from tallystick.community.types import (
    EVENT_LOG_RETENTION_DAYS,
    EVENT_TYPES,
    SNAPSHOT_LAG_LAMPORT,
    Event,
    EventType,
)
from tallystick.community.views import ChatView, MarketplaceView, MembersView
from tallystick.errors import EventLogError

__all__ = [
    "EVENT_LOG_RETENTION_DAYS",
    "EVENT_TYPES",
    "SNAPSHOT_LAG_LAMPORT",
    "Base",
    "ChatView",
    "Event",
    "EventLog",
    "EventLogError",
    "EventType",
    "Fanout",
    "HeadsReport",
    "HttpClient",
    "KeyPair",
    "LamportClock",
    "MarketplaceView",
    "MaterialisedView",
    "MembersView",
    "OwnHead",
    "Peer",
    "ReplayEngine",
    "Replica",
    "Snapshot",
    "SnapshotStore",
    "SyncClient",
    "SyncResult",
    "SyncServer",
    "build_snapshot",
    "declare_floor",
    "endorse_floors",
    "propose_floor",
    "restore_from_snapshot",
]
