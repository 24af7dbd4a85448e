"""Snapshots as an engine keeps them: bodies by id. Everything said of a body stands in a control fact of the same id.

The fact is an event: chained, verified, never pruned. So a snapshot that was changed, swapped or invented is found by
comparing it with its fact, and a body without a fact is no snapshot.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

Kind = Literal["full", "diff"]
FULL: Kind = "full"
DIFF: Kind = "diff"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one reducer at one place: a stream at `seq`, or the whole store (`stream` empty) at `position`.

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
    """The body, unless it is larger than it can be."""
    return body if body is None or bytes_max is None or len(body) <= bytes_max else None


class RestoresSnapshots(Protocol):
    """What the snapshots of an engine that can be refilled offer besides."""

    def put_back(self, snapshot: Snapshot) -> None:
        """Store the body of a snapshot of the log again: it is missing or damaged. The snapshot is as it was made."""


class Snapshots(Protocol):
    """The bodies that an engine holds. They come and go with commits (`Maintenance`)."""

    def load(self, id: bytes, *, bytes_max: int | None = None) -> bytes | None:
        """The body with this id, exactly as it was given; None if there is none, or none that can be read.

        `bytes_max` is what the control fact says of its size. A larger body is not the one that was given: it is None,
        and no more of it than that is unpacked.
        """

    def ids(self) -> list[bytes]:
        """The ids of all bodies, ascending."""

    def size(self) -> int:
        """The bytes that all bodies take up."""
