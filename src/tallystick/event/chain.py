"""The hash chain of a stream, as text, so that Python, PostgreSQL and Spark compute the same.

    link = sha256("tallystick/1" ‖ previous ‖ stream ‖ seq ‖ type ‖ version ‖ id ‖ time ‖ meta ‖ checksum)

with ‖ a newline, which no field can contain. The first `previous` is 64 zeros; hashes are lower-case hex, the id is
32 hex digits, numbers are decimal. Only the checksum of the payload enters, so the chain is valid after an erasure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tallystick.event.model import Draft, Event, Row

DOMAIN = "tallystick/1"
GENESIS = bytes(32)

_sha256 = hashlib.sha256


def checksum(payload: bytes) -> bytes:
    """SHA-256 of the payload's canonical bytes."""
    return _sha256(payload).digest()


def checksums(payloads: Iterable[bytes]) -> list[bytes]:
    """`checksum` of many."""
    sha256 = _sha256
    return [sha256(payload).digest() for payload in payloads]


def text(event: Event, previous: bytes) -> bytes:
    """The text that the link hashes and the signature signs."""
    return (
        f"{DOMAIN}\n{previous.hex()}\n{event.stream}\n{event.seq}\n{event.type}\n{event.version}\n"
        f"{event.id.hex()}\n{event.time}\n{event.meta.decode()}\n{event.checksum.hex()}"
    ).encode()


def link(event: Event, previous: bytes) -> bytes:
    """The link of an event after the one whose link is `previous`."""
    try:
        return _sha256(text(event, previous)).digest()
    except UnicodeDecodeError:  # the stored meta is damaged: no link follows from it
        return b""


def broken(pairs: Iterable[tuple[Event, bytes]]) -> list[Event]:
    """Of events, each with the link before it, those whose link does not follow: `link` for many."""
    sha256, begin = _sha256, f"{DOMAIN}\n"
    last_kind = last_version = last_time = last_meta = None  # neighbours share most fields, so their text is made once
    named = dated = ""
    wrong: list[Event] = []
    for event, before in pairs:
        kind, version, time, meta = event.type, event.version, event.time, event.meta
        if kind != last_kind or version != last_version:
            named, last_kind, last_version = f"\n{kind}\n{version}\n", kind, version
        if time != last_time or meta != last_meta:
            try:
                dated, last_time, last_meta = f"\n{time}\n{meta.decode()}\n", time, meta
            except UnicodeDecodeError:  # as in `link`
                wrong.append(event)
                continue
        place = f"{begin}{before.hex()}\n{event.stream}\n{event.seq}"
        content = f"{place}{named}{event.id.hex()}{dated}{event.checksum.hex()}"
        if sha256(content.encode()).digest() != event.link:
            wrong.append(event)
    return wrong


def extend(stream: str, drafts: Iterable[Draft], *, seq: int, position: int, previous: bytes) -> list[Row]:
    """The rows of drafts appended after `seq` of a stream, with positions from `position` on."""
    sha256 = _sha256
    begin, between = f"{DOMAIN}\n", f"\n{stream}\n"
    before = previous.hex()
    rows: list[Row] = []
    append = rows.append
    last_kind = last_version = last_time = last_meta = None  # neighbours share most fields, so their text is made once
    named = dated = ""
    for kind, version, id_, time, payload, meta, check, signature in drafts:
        seq += 1
        if kind is not last_kind or version != last_version:
            named, last_kind, last_version = f"\n{kind}\n{version}\n", kind, version
        if time != last_time or meta is not last_meta:
            dated, last_time, last_meta = f"\n{time}\n{meta.decode()}\n", time, meta
        content = f"{begin}{before}{between}{seq}{named}{id_.hex()}{dated}{check.hex()}"
        digest = sha256(content.encode()).digest()
        before = digest.hex()
        append((position, stream, seq, kind, version, id_, time, payload, meta, check, digest, signature))
        position += 1
    return rows
