"""Verify the signatures of stored events from outside: nothing that the store says about them is trusted.

An event of a community's feed is signed with the key that names its stream. Elsewhere a signature is optional, and the
author in the meta says whose it is. The signed text is the text that the link hashes. It contains the checksum of the
payload, so the payload is hashed again too. Events that were set aside are signed themselves and are checked too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from tallystick import errors
from tallystick.community import identity
from tallystick.community.entry import FeedStreams, text_of
from tallystick.community.storage import from_aside
from tallystick.event import chain, model, names
from tallystick.store.events import PAGE_EVENTS, Problem
from tallystick.store.store import Store

SIGNATURE, NOBODYS = "signature", "nobody's"


class _Signed(msgspec.Struct):
    author: str = ""


def problems(store: Store, *, progress: Callable[[int], None] = lambda done: None) -> Iterator[Problem]:
    """Events in feeds that are not signed, or not signed by their author."""
    links: dict[str, bytes] = {}
    after, head = 0, store.head()
    while after < head:
        page = store.log.read(
            after=after, until=head, limit=PAGE_EVENTS, over_pruned=True, over_holes=True, unchecked=True
        )
        for event in page.events:
            wrong = None
            if names.is_feed(event.stream):
                previous = links.get(event.stream) or _before(store, event.stream)
                wrong = _in_feed(event, previous)
                links[event.stream] = event.link
            elif names.is_aside(event.stream):
                wrong = _aside(event)
            if wrong is not None:
                yield Problem(*wrong, position=event.position, stream=event.stream, seq=event.seq)
        after = page.through
        progress(after)


def _in_feed(event: model.Event, previous: bytes) -> tuple[str, str] | None:
    """What is wrong with an event of a feed."""
    if event.payload is not None and chain.checksum(event.payload) != event.checksum:
        return SIGNATURE, "the payload is not the one that was signed"
    return why_not(event.stream, event.signature, chain.text(event, previous), in_community=True)


def _aside(event: model.Event) -> tuple[str, str] | None:
    """What is wrong with the events that were set aside inside an event."""
    if event.payload is None:
        return None  # erased: a control fact must name it
    streams = FeedStreams(f"ed25519:{event.stream.partition('/')[0].removeprefix(names.FEEDS)}")
    for held in event.data.values():
        try:
            entry = from_aside(streams, held)
        except (errors.EventLogError, msgspec.ValidationError):
            return SIGNATURE, "it does not contain an event of the community"
        text = text_of(streams.feed(entry.author), entry)
        if why_not(streams.feed(entry.author), entry.signature, text, in_community=True) is not None:
            return SIGNATURE, "the event in it is not signed by its author"
    return None


def _before(store: Store, stream: str) -> bytes:
    """The link before the first event of a stream that still exists."""
    cut = store.cut(stream)
    return chain.GENESIS if cut is None else cut.link


def why_not(stream: str, signature: bytes | None, text: bytes | None, *, in_community: bool) -> tuple[str, str] | None:
    """What is wrong with the signature of one event; None if it is valid."""
    if signature is None:
        return SIGNATURE, "it is not signed, but every event of a community must be"
    author = stream.partition("/")[2] if in_community else _author(text)
    if not identity.is_node_id(author):
        return (SIGNATURE, "its author is not a node id") if in_community else (NOBODYS, "nothing names its author")
    if text is None or not identity.verify(identity.public_key(author), text, signature):
        return SIGNATURE, "the signature is not its author's signature of this event"
    return None


def _author(text: bytes | None) -> str:
    """The author named in the meta, which is the last line but one of the signed text."""
    try:
        return msgspec.json.decode((text or b"").rsplit(b"\n", 2)[-2], type=_Signed).author
    except (msgspec.DecodeError, IndexError):
        return ""
