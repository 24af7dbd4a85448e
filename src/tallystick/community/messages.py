"""Messages between nodes: JSON on the wire, except reconciliation, which is bytes in MessagePack."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tallystick.community.feeds import FeedHead
from tallystick.community.types import Event

EVENTS_MAX = 1000
LINKS_MAX = 10_000
AUTHORS_MAX = 10_000
BODY_BYTES_MAX = 8 << 20
EVIDENCE_MAX = 100

Place: TypeAlias = "tuple[int, str]"
"""A seq in a feed and the link at that seq, in hex."""


class HeadsReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cheap first answer. Older peers send only the first three fields; the others find what those miss."""

    community_id: str
    head: int
    heads_by_type: dict[str, int]
    tips: dict[str, Place] | None = None
    forks: dict[str, int] = {}
    floor: str = ""
    fingerprint: str = ""
    ceiling: int = 0


class Malformed(Event, frozen=True, kw_only=True):
    """Something in a delivery that is not an event: its id, if it has one, and what is wrong with it."""

    reason: str
    schema_version: int = 0
    lamport: int = 0
    wall_clock: str = ""
    community_id: str = ""
    author: str = ""
    event_type: str = ""
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    signature: str = ""
    seq: int = 0
    previous: str = ""
    time_ns: int = 0
    meta: dict[str, Any] = msgspec.field(default_factory=dict)


class Delivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Events for a peer: `POST /sync/v1/events`, and the answer to a fetch. `delivery_of` reads one.

    `evidence` holds pairs that prove a fork; `witnesses` vouch for lamports and are not stored.
    """

    community_id: str
    events: list[Event] = []
    evidence: list[tuple[Event, Event]] = []
    witnesses: list[Event] = []


class _Parts(msgspec.Struct):
    """A delivery whose events are decoded one by one."""

    community_id: str
    events: list[msgspec.Raw] = []
    evidence: list[tuple[msgspec.Raw, msgspec.Raw]] = []
    witnesses: list[msgspec.Raw] = []


class _Named(msgspec.Struct):
    event_id: str = ""


class Rejected(msgspec.Struct, frozen=True):
    """An event that was not accepted, or does not count, and why."""

    event_id: str
    reason: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a delivery."""

    accepted: int
    rejected: int
    rejected_reasons: list[Rejected]
    new_head: int


class Fetch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request: parts of feeds (after, until), single links, evidence, a ladder of lamports (from, to)."""

    community_id: str
    ranges: dict[str, tuple[int, int]] = {}
    links: list[str] = []
    forks: list[str] = []
    ladder: tuple[int, int] | None = None


class Reconcile(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the reconciliation, over the sets above the same floor."""

    community_id: str
    floor: str
    message: bytes


class HeadsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /sync/v1/heads`."""

    community_id: str


Request: TypeAlias = "HeadsRequest | Delivery | Fetch | Reconcile"
Response: TypeAlias = "HeadsReport | Receipt | Delivery | Reconcile"


def delivery_of(body: bytes) -> Delivery:
    """Decode a delivery. A malformed event is reported on its own and does not invalidate the delivery.

    If the JSON itself is invalid (a control character, half a surrogate pair, nesting that is too deep), single events
    cannot be told apart, and the whole delivery is refused.
    """
    try:
        return msgspec.json.decode(body, type=Delivery)
    except (msgspec.ValidationError, UnicodeDecodeError):
        parts = msgspec.json.decode(body, type=_Parts)
    return Delivery(
        community_id=parts.community_id,
        events=[_event(each) for each in parts.events],
        evidence=[(_event(one), _event(other)) for one, other in parts.evidence],
        witnesses=[_event(each) for each in parts.witnesses],
    )


def _event(text: msgspec.Raw) -> Event:
    try:
        return msgspec.json.decode(text, type=Event)
    except (msgspec.ValidationError, UnicodeDecodeError) as problem:
        return Malformed(event_id=_id_in(text), reason=str(problem)[:200])


def _id_in(text: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(text, type=_Named).event_id[:80]
    except (msgspec.ValidationError, UnicodeDecodeError):
        return ""


def tip(head: FeedHead) -> Place:
    """The end of a feed for the wire."""
    return (head.seq, head.link.hex())
