"""Whether stored events are signed by whom they say: asked of a store from outside, so that nothing in it is believed.

An event of a community's feed is signed by the key that its stream is named by; elsewhere a signature is optional, and
the author in its meta says whose it is. What is signed is the text that the link hashes, which has the checksum of the
payload: so the payload is hashed again too. What is kept aside holds signed events, which are checked in its place.
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
from tallystick.store.verify import Verification
from tallystick.store.verify import verify as verify_log

SIGNATURE, NOBODYS = "signature", "nobody's"


class _Signed(msgspec.Struct):
    author: str = ""


def verify(store: Store) -> Verification:
    """The whole verification of a community's store: what every log has checked, then the signatures."""
    found = verify_log(store.log)
    for problem in problems(store):
        found.add(problem)
    return found


def problems(store: Store, *, progress: Callable[[int], None] = lambda done: None) -> Iterator[Problem]:
    """Events of the feeds of a store that are not signed, or not by their author."""
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
    """What is wrong with what an event holds that is kept aside."""
    if event.payload is None:
        return None  # erased, as a control fact has to say
    streams = FeedStreams(f"ed25519:{event.stream.partition('/')[0].removeprefix(names.FEEDS)}")
    for held in event.data.values():
        try:
            entry = from_aside(streams, held)
        except (errors.EventLogError, msgspec.ValidationError):
            return SIGNATURE, "what it holds is no event of the community"
        text = text_of(streams.feed(entry.author), entry)
        if why_not(streams.feed(entry.author), entry.signature, text, in_community=True) is not None:
            return SIGNATURE, "what it holds is not signed by its author"
    return None


def _before(store: Store, stream: str) -> bytes:
    """The link that the first event of a stream that is left follows."""
    cut = store.cut(stream)
    return chain.GENESIS if cut is None else cut.link


def why_not(stream: str, signature: bytes | None, text: bytes | None, *, in_community: bool) -> tuple[str, str] | None:
    """What is wrong with the signature of one event; None if it is its author's."""
    if signature is None:
        return SIGNATURE, "it is not signed, as every event of a community is"
    author = stream.partition("/")[2] if in_community else _author(text)
    if not identity.is_node_id(author):
        return (SIGNATURE, "its author is not a node id") if in_community else (NOBODYS, "nothing says by whom it is")
    if text is None or not identity.verify(identity.public_key(author), text, signature):
        return SIGNATURE, "the signature is not that of its author over this event"
    return None


def _author(text: bytes | None) -> str:
    """Who is named by the meta, the last line but one of what is signed."""
    try:
        return msgspec.json.decode((text or b"").rsplit(b"\n", 2)[-2], type=_Signed).author
    except (msgspec.DecodeError, IndexError):
        return ""
