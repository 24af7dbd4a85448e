"""An event of a feed as bytes: what was signed, hashed and stored, and the few fields that order it."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tallystick.community.identity import ALG, KeyPair
from tallystick.event import canonical, chain, names
from tallystick.event import model as envelope

Key: TypeAlias = "tuple[int, bytes, bytes]"
"""The position in the merged order: lamport, id, link. An id can be copied, a link cannot: it makes the order total."""

Place: TypeAlias = "tuple[int, bytes]"
"""A seq in a feed and the link at that seq."""


ERASED = b""
"""The payload of an event whose data was erased here: a JSON object is never empty."""


class FeedEntry(msgspec.Struct, frozen=True, gc=False):
    """One event of one author's feed."""

    author: str
    seq: int
    lamport: int
    type: str
    version: int
    id: bytes
    time: int
    payload: bytes
    meta: bytes
    checksum: bytes
    link: bytes
    previous: bytes
    signature: bytes

    @property
    def key(self) -> Key:
        """Its position in the merged order."""
        return (self.lamport, self.id, self.link)

    @property
    def data(self) -> dict[str, object]:
        """The payload, decoded."""
        found: dict[str, object] = {} if self.payload == ERASED else canonical.decode(self.payload)
        return found

    @property
    def draft(self) -> envelope.Draft:
        """The draft that an engine stores."""
        return (
            self.type,
            self.version,
            self.id,
            self.time,
            self.payload,
            self.meta,
            self.checksum,
            self.signature,
        )


class FeedStreams:
    """The names of a community's streams: per author one feed, and one for events that the feed cannot store."""

    def __init__(self, community: str) -> None:
        self.community = community
        self.kind = f"community.{community[8:]}"

    def feed(self, author: str) -> str:
        """The stream of an author's feed."""
        return f"{self.kind}/{author}"

    def aside(self, author: str) -> str:
        """The stream for events of an author that its feed cannot store. They are kept as they arrived."""
        return f"{self.kind}/{names.ASIDE}{author}"


def text_of(stream: str, entry: FeedEntry) -> bytes:
    """The text that the link hashes and the author signs."""
    return (
        f"{chain.DOMAIN}\n{entry.previous.hex()}\n{stream}\n{entry.seq}\n{entry.type}\n{entry.version}\n"
        f"{entry.id.hex()}\n{entry.time}\n{entry.meta.decode()}\n{entry.checksum.hex()}"
    ).encode()


class _Clocked(msgspec.Struct, gc=False):
    lamport: int
    author: str


_clocked = msgspec.json.Decoder(_Clocked)


def from_store(event: envelope.Event, previous: bytes) -> FeedEntry:
    """The entry for a stored event of a feed."""
    clocked = _clocked.decode(event.meta)
    return FeedEntry(
        clocked.author,
        event.seq,
        clocked.lamport,
        event.type,
        event.version,
        event.id,
        event.time,
        ERASED if event.payload is None else event.payload,
        event.meta,
        event.checksum,
        event.link,
        previous,
        event.signature or b"",
    )


def mint(
    streams: FeedStreams,
    keys: KeyPair,
    *,
    after: Place,
    lamport: int,
    type: str,
    data: dict[str, Any],
    id: bytes,
    time: int,
    version: int = 1,
) -> FeedEntry:
    """A new signed event at the end of one's own feed."""
    payload = canonical.encode(data)
    meta = canonical.encode({"alg": ALG, "author": keys.node, "lamport": lamport}, what="meta")
    seq, previous = after
    fields = (keys.node, seq + 1, lamport, type, version, id, time, payload, meta, chain.checksum(payload))
    text = text_of(streams.feed(keys.node), FeedEntry(*fields, b"", previous, b""))
    return FeedEntry(*fields, chain.checksum(text), previous, keys.sign(text))
