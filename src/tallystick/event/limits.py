"""The bounds of one event and of one commit. Units are in the names."""

from __future__ import annotations

EVENT_BYTES_MAX = 1 << 20  # payload and meta together
EVENT_BYTES_ADVISED = 64 << 10
DEPTH_MAX = 254  # containers inside each other; what the fast checker enforces too, see canonical.py
NODES_MAX = EVENT_BYTES_MAX // 2 + 1  # more values than this do not fit into the bytes: counting stops here
COMMIT_EVENTS_MAX = 100_000
COMMIT_BYTES_MAX = 256 << 20
PAGE_EVENTS_MAX = 100_000
INT_MIN = -(1 << 63)
INT_MAX = (1 << 63) - 1
