"""Snapshots as an engine stores them: bodies by id. Everything about a body is in the control fact with the same id.

The fact is an event: chained, verified, never pruned. So a comparison with its fact shows whether a snapshot was
changed, swapped or invented. A body without a fact is not a snapshot.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

Kind = Literal["full", "diff"]
FULL: Kind = "full"
DIFF: Kind = "diff"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one reducer at one point: a stream at `seq`, or the whole store (`stream` empty) at `position`.

    `id` is the id of the control fact. `body` is the canonical JSON of the state, or for kind `diff` the canonical JSON
    Patch that leads from the state of the snapshot `base` to it; `state_hash` is of the whole state either way.
    `last_event_id` is the id of the last event in it. `events_since_base` counts seqs, or positions of the whole store.
    """

    id: bytes
    stream: str
    seq: int
    position: int
    link: bytes
    reducer: str
    reducer_version: int
    upcasters: bytes
    state_hash: bytes
    made: int
    body: bytes
    kind: Kind = FULL
    base: bytes | None = None
    last_event_id: bytes = b""
    events_since_base: int = 0


def within(body: bytes | None, bytes_max: int | None) -> bytes | None:
    """The body; None if it is larger than allowed."""
    return body if body is None or bytes_max is None or len(body) <= bytes_max else None


class RestoresSnapshots(Protocol):
    """What snapshots offer in addition, in an engine that can be refilled."""

    def put_back(self, snapshot: Snapshot) -> None:
        """Store the missing or damaged body of a snapshot again. The snapshot is exactly as it was made."""


class Snapshots(Protocol):
    """The bodies in an engine. They are stored and dropped by commits (`Maintenance`)."""

    def load(self, id: bytes, *, bytes_max: int | None = None) -> bytes | None:
        """The body with this id, exactly as it was given; None if it does not exist or cannot be read.

        `bytes_max` is its size according to the control fact. A larger body is not the one that was given: the result
        is None, and no more bytes than that are unpacked.
        """

    def ids(self) -> list[bytes]:
        """The ids of all bodies, ascending."""

    def size(self) -> int:
        """The bytes that all bodies take up."""
