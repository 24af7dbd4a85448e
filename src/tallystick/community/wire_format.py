"""The wire format of feeds: `Event` to and from `FeedEntry`, strict in both directions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from tallystick import errors
from tallystick.community.entry import FeedEntry
from tallystick.community.types import Event
from tallystick.event import canonical, chain, ids, limits, names

_decode = msgspec.json.Decoder(Event).decode
_encode = msgspec.json.Encoder(order="deterministic").encode
SECONDS_MAX = 9_223_372_036


@lru_cache(maxsize=1 << 12)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def wall_clock(time_ns: int) -> str:
    """The instant as RFC 3339 with nanoseconds, so that no precision is lost."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{_second(seconds)}.{rest:09d}Z"


def to_wire(entry: FeedEntry, community: str) -> Event:
    """The entry as peers see it."""
    return Event(
        schema_version=entry.version,
        event_id=ids.to_ulid(entry.id),
        lamport=entry.lamport,
        wall_clock=wall_clock(entry.time),
        community_id=community,
        author=entry.author,
        event_type=entry.type,
        data=entry.data,
        signature=entry.signature.hex(),
        seq=entry.seq,
        previous=entry.previous.hex(),
        time_ns=entry.time,
        meta=canonical.decode(entry.meta),
    )


def dump(event: Event) -> bytes:
    """The bytes of an event on the wire."""
    return _encode(event)


def load(text: bytes) -> Event:
    """Decode an event. Bytes in another form are refused."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise malformed(str(problem)) from None


def malformed(reason: str) -> errors.EventLogError:
    """An event that cannot be what its author signed."""
    return errors.EventLogError(code="invalid_signature", reason=f"the event is malformed: {reason[:200]}")


def entries(events: Sequence[Event]) -> list[FeedEntry | errors.EventLogError]:
    """Unverified entries, complete except for the link, or an error for each that is malformed. Encoding many at once
    is cheaper.
    """
    try:
        payloads = canonical.encode_many([event.data for event in events])
        metas = canonical.encode_many([event.meta for event in events], what="meta")
    except errors.TallyError:
        return [_alone(event) for event in events]
    checks = chain.checksums(payloads)
    return [_entry(*parts) for parts in zip(events, payloads, metas, checks, strict=True)]


def _alone(event: Event) -> FeedEntry | errors.EventLogError:
    try:
        payload = canonical.encode(event.data)
        meta = canonical.encode(event.meta, what="meta")
    except errors.TallyError as problem:
        return malformed(problem.message)
    return _entry(event, payload, meta, chain.checksum(payload))


def _entry(event: Event, payload: bytes, meta: bytes, checksum: bytes) -> FeedEntry | errors.EventLogError:
    reason = _fault(event, payload, meta)
    if reason is not None:
        return malformed(reason)
    try:
        id_ = ids.from_ulid(event.event_id)
    except ValueError:
        return malformed("event_id is not a ULID")
    previous, signature = _unhex(event.previous, 32), _unhex(event.signature, 64)
    if previous is None or signature is None:
        return malformed("previous or signature is not lower-case hex of its length")
    return FeedEntry(
        event.author,
        event.seq,
        event.lamport,
        event.event_type,
        event.schema_version,
        id_,
        event.time_ns,
        payload,
        meta,
        checksum,
        b"",
        previous,
        signature,
    )


def _fault(event: Event, payload: bytes, meta: bytes) -> str | None:
    """What is wrong with the form of an event; None if it is valid."""
    least = min(event.schema_version, event.lamport, event.seq)
    if least < 1 or max(event.schema_version, event.lamport, event.seq) > limits.INT_MAX:
        return "schema_version, lamport or seq is not from 1 to 2^63-1"
    if not 0 <= event.time_ns <= limits.INT_MAX or event.wall_clock != wall_clock(event.time_ns):
        return "wall_clock and time_ns are not the same instant"
    if len(payload) + len(meta) > limits.EVENT_BYTES_MAX:
        return f"it has more than {limits.EVENT_BYTES_MAX} bytes"
    if not _is_type(event.event_type):
        return "event_type is not a valid name"
    if event.schema_version > names.VERSION_MAX:
        return f"schema_version is past {names.VERSION_MAX}"
    if meta == b'{"alg":"ed25519","author":"%b","lamport":%d}' % (event.author.encode(), event.lamport):
        return None  # as every author of this version writes it: nothing else to check
    if not _is_readable(meta):
        return "org, app, env, source or source_seq in its meta has the wrong type"
    told = event.meta
    if told.get("lamport") != event.lamport or type(told.get("lamport")) is not int:
        return "lamport differs from the one in meta"
    if told.get("author") != event.author or told.get("alg") != "ed25519":
        return "author or alg differs from meta"
    return None


def _unhex(text: str, size: int) -> bytes | None:
    """The bytes of a lower-case hex text; None if it is anything else, or has another length."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        return None
    return found if len(found) == size and found.hex() == text else None


class _Read(msgspec.Struct, gc=False):
    """The fields of meta that stores read. No event may have them with another type."""

    org: str | None = None
    app: str | None = None
    env: str | None = None
    source: str | None = None
    source_seq: int | None = None


_read = msgspec.json.Decoder(_Read).decode


def _is_readable(meta: bytes) -> bool:
    try:
        _read(meta)
    except msgspec.ValidationError:
        return False
    return True


@lru_cache(maxsize=1 << 10)
def _is_type(text: str) -> bool:
    return names.TYPE.fullmatch(text) is not None


def dump_all(events: Iterable[FeedEntry], community: str) -> list[dict[str, Any]]:
    """Many entries as plain JSON objects."""
    return [msgspec.to_builtins(to_wire(entry, community)) for entry in events]
