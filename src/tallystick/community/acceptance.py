"""Check that an event is authentic: its form, its community, its signature. Whether it counts is decided in `judge.py`.

Cheap checks come first; the signature, about 60 µs, comes last. The result does not depend on what this node has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

from tallystick import errors
from tallystick.community import identity, wire_format
from tallystick.community.entry import FeedEntry, FeedStreams, text_of
from tallystick.community.messages import Malformed
from tallystick.community.types import Event
from tallystick.event import chain

Verify: TypeAlias = "Callable[[bytes, bytes, bytes], bool]"
"""Whether a signature over a text was made with a key. Arguments: key, text, signature."""

Examined: TypeAlias = "FeedEntry | errors.EventLogError"


def examine(events: Sequence[Event], streams: FeedStreams, verify: Verify = identity.verify) -> list[Examined]:
    """For each event: its entry if its author signed it for this community, otherwise the reason."""
    whole = iter(wire_format.entries([event for event in events if not isinstance(event, Malformed)]))
    found = [wire_format.malformed(event.reason) if isinstance(event, Malformed) else next(whole) for event in events]
    return [_examined(event, entry, streams, verify) for event, entry in zip(events, found, strict=True)]


def _examined(event: Event, entry: Examined, streams: FeedStreams, verify: Verify) -> Examined:
    return entry if isinstance(entry, errors.EventLogError) else _authentic(event, entry, streams, verify)


def _authentic(event: Event, entry: FeedEntry, streams: FeedStreams, verify: Verify) -> Examined:
    if event.community_id != streams.community:
        return _refused("it belongs to another community")
    key = _key(entry.author)
    if key is None:
        return _refused("its author is not a node id")
    text = text_of(streams.feed(entry.author), entry)
    if not verify(key, text, entry.signature):
        return _refused("the signature does not validate")
    return msgspec.structs.replace(entry, link=chain.checksum(text))


def _refused(reason: str) -> errors.EventLogError:
    return errors.EventLogError(code="invalid_signature", reason=reason)


@lru_cache(maxsize=1 << 12)
def _key(author: str) -> bytes | None:
    """The key of an author; None if this is not a NodeID."""
    return identity.public_key(author) if identity.is_node_id(author) else None
