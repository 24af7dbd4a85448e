"""From what a user hands in to what an engine commits: names, catalog, meta, canonical bytes, limits, secrets, ids.

A group of requests is prepared as one batch, because encoding, checking and scanning many events at once is several
times cheaper than one by one. If anything in the batch is refused, the requests are prepared again one by one, so
that only the culprit fails.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from tallystick import errors
from tallystick.event import canonical, chain, ids, limits, names, profiles
from tallystick.event.model import Draft, Event, NewEvent
from tallystick.store import expectation, leases
from tallystick.store.commit import SourceMark, Transaction, Write

_EMPTY_META = b"{}"


class Catalog(Protocol):
    """What preparation and reading ask of a catalog of event types."""

    closed: bool

    def current_version(self, type_: str) -> int | None: ...
    def validate(self, type_: str, version: int, payload: bytes) -> None: ...
    def payload_of(self, model: Any) -> dict[str, Any]: ...
    def upcast(self, events: list[Event]) -> list[Event]: ...
    def is_tenant(self, kind: str) -> bool: ...


class Guard(Protocol):
    """What preparation asks of the secret guard."""

    def suspects(self, blob: bytes) -> bool: ...
    def inspect(self, *, where: str, text: bytes) -> None: ...


class Part(msgspec.Struct):
    """One stream's part of a request, as the user gave it."""

    stream: str
    events: Sequence[NewEvent]
    expected: int = expectation.ANY


class Request(msgspec.Struct):
    """One all-or-nothing append, as the user gave it. Only the store itself makes control requests."""

    parts: list[Part]
    control: bool = False


class Preparer:
    """Prepares requests under one store's rules."""

    def __init__(
        self,
        *,
        profile: profiles.Profile,
        clock: Callable[[], int],
        catalog: Catalog,
        guard: Guard | None,
        defaults: dict[str, Any] | None = None,
        minter: ids.Minter = ids.default,
    ) -> None:
        self.profile = profile
        self.clock = clock
        self.catalog = catalog
        self.guard = guard
        self.defaults = defaults or {}
        self.minter = minter

    def prepare(self, requests: Sequence[Request]) -> list[Transaction | errors.TallyError]:
        """A transaction for each request, or the error that says why there is none."""
        try:
            return list(self._batch(requests))
        except errors.TallyError as problem:
            if len(requests) == 1:
                return [problem]
        return [outcome for request in requests for outcome in self.prepare([request])]

    def _batch(self, requests: Sequence[Request]) -> list[Transaction]:
        parts = [part for request in requests for part in request.parts]
        controls = [request.control for request in requests for _ in request.parts]
        for part, control in zip(parts, controls, strict=True):
            self._check_part(part, control=control)
        events = [event for part in parts for event in part.events]
        drafts, metas = self._drafts(events, [part for part in parts for _ in part.events])
        self._scan(parts, drafts)
        transactions, at = [], 0
        for request in requests:
            writes = []
            for part in request.parts:
                upto = at + len(part.events)
                writes.append(self._write(part, drafts[at:upto], metas[at:upto], events[at:upto]))
                at = upto
            transactions.append(Transaction(writes))
        return transactions

    def _check_part(self, part: Part, *, control: bool) -> None:
        if type(part.stream) is not str:
            raise errors.InvalidName(what="stream", value=repr(part.stream)[:80], form="kind/name")
        kind = names.kind_of(part.stream)
        if names.is_reserved(kind) and not control:
            raise errors.ReservedName(stream=part.stream)
        expectation.check(part.expected)
        if not part.events:
            raise errors.InvalidValue(what="events", value=[], must="at least one event")
        if len(part.events) > limits.COMMIT_EVENTS_MAX:
            raise errors.TooLarge(
                what="the append", size=len(part.events), unit="events", limit=limits.COMMIT_EVENTS_MAX
            )

    def _drafts(
        self, events: Sequence[NewEvent], parts: Sequence[Part]
    ) -> tuple[list[Draft], list[dict[str, Any] | None]]:
        now = self.clock()
        event_ids = self._ids(events, now)
        payloads = canonical.encode_many([self._payload(event) for event in events])
        versions = [self._version(event) for event in events]
        for event, version, payload in zip(events, versions, payloads, strict=True):
            self.catalog.validate(event.type, version, payload)
        metas, meta_bytes = self._metas(events, event_ids, parts)
        self._check_sizes(events, payloads, meta_bytes)
        times = [now if event.time is None else _check_time(event.time) for event in events]
        signatures = [event.signature for event in events]
        types = [event.type for event in events]
        checks = chain.checksums(payloads)
        rows = zip(types, versions, event_ids, times, payloads, meta_bytes, checks, signatures, strict=True)
        return list(rows), metas

    def _ids(self, events: Sequence[NewEvent], now: int) -> list[bytes]:
        minted = self.minter.mint(len(events), time_ns=now)
        return [
            mint if event.id is None else ids.to_bytes(event.id)
            for event, mint in zip(events, minted, strict=True)
        ]

    def _payload(self, event: NewEvent) -> Any:
        payload = event.payload
        if type(payload) is dict:
            return payload
        if isinstance(payload, (bytes, str)):
            return canonical.parse(payload)
        return self.catalog.payload_of(payload)

    def _version(self, event: NewEvent) -> int:
        names.check_type(event.type) if type(event.type) is str else names.check_type(repr(event.type))
        if event.version is None:
            return self.catalog.current_version(event.type) or 1
        if type(event.version) is not int or not 1 <= event.version <= names.VERSION_MAX:
            raise errors.InvalidValue(what="version", value=event.version, must="an integer from 1 to 2^31-1")
        return event.version

    def _metas(
        self, events: Sequence[NewEvent], event_ids: list[bytes], parts: Sequence[Part]
    ) -> tuple[list[dict[str, Any] | None], list[bytes]]:
        profile = self.profile
        if profile.name == "plain" and not self.defaults and not any(event.meta for event in events):
            return [None] * len(events), [_EMPTY_META] * len(events)
        metas: list[dict[str, Any] | None] = []
        for index, (event, id_, part) in enumerate(zip(events, event_ids, parts, strict=True)):
            meta = {} if event.meta is None else event.meta
            if type(meta) is not dict:
                raise errors.NotCanonical(what="meta", pointer="", reason="it is not an object")
            if self.defaults:
                meta = self.defaults | meta
            profiles.check_meta(meta)
            kind = names.kind_of(part.stream)
            if not names.is_reserved(kind):
                meta = profiles.complete(profile, meta, id_=id_, index=index, type_=event.type)
                if profile.tenants and "org" not in meta and self.catalog.is_tenant(kind):
                    raise errors.MissingMeta(index=index, type=event.type, key="org", profile=profile.name)
            metas.append(meta)
        return metas, canonical.encode_many(metas, what="meta")

    def _check_sizes(self, events: Sequence[NewEvent], payloads: list[bytes], metas: list[bytes]) -> None:
        largest = max(map(len, payloads)) + max(map(len, metas))
        if largest <= limits.EVENT_BYTES_ADVISED:
            return
        total = 0
        for index, (event, payload, meta) in enumerate(zip(events, payloads, metas, strict=True)):
            size = len(payload) + len(meta)
            total += size
            what = f"event {index} ({event.type})"
            if size > limits.EVENT_BYTES_MAX:
                raise errors.TooLarge(what=what, size=size, unit="bytes", limit=limits.EVENT_BYTES_MAX)
            if size > limits.EVENT_BYTES_ADVISED:
                text = f"{what} has {size} bytes, more than the advised {limits.EVENT_BYTES_ADVISED}"
                warnings.warn(text, errors.LargeEventWarning, stacklevel=7)
        if total > limits.COMMIT_BYTES_MAX:
            raise errors.TooLarge(what="the append", size=total, unit="bytes", limit=limits.COMMIT_BYTES_MAX)

    def _scan(self, parts: Sequence[Part], drafts: list[Draft]) -> None:
        """Scan everything at once; look for the culprit only when something matched."""
        guard = self.guard
        if guard is None:
            return
        pieces = [draft[4] for draft in drafts]
        pieces += [part.stream.encode() for part in parts]
        pieces += {draft[5] for draft in drafts}
        if not guard.suspects(b"\n".join(pieces)):
            return
        for part in parts:
            guard.inspect(where="stream name", text=canonical.encode({"stream": part.stream}))
        for draft in drafts:
            guard.inspect(where=f"payload of {draft[0]}", text=draft[4])
            guard.inspect(where=f"meta of {draft[0]}", text=draft[5])

    def _write(
        self, part: Part, drafts: list[Draft], metas: list[dict[str, Any] | None], events: Sequence[NewEvent]
    ) -> Write:
        write = Write(stream=part.stream, drafts=drafts, expected=part.expected)
        write.leased = part.stream.startswith(leases.LEASED_KIND + "/")
        given = [index for index, event in enumerate(events) if event.id is not None]
        if given:
            write.ids_given = True
            write.times_given = frozenset(index for index in given if events[index].time is not None)
        if any(metas):
            write.orgs = frozenset(meta["org"] for meta in metas if meta and "org" in meta)
            write.sources = tuple(self._source_marks(metas))
        return write

    def _source_marks(self, metas: list[dict[str, Any] | None]) -> list[SourceMark]:
        return [
            SourceMark(index, meta["source"], meta.get("source_seq"))
            for index, meta in enumerate(metas)
            if meta and "source" in meta and ("source_seq" in meta or self.profile.numbers_sources)
        ]


def _check_time(time: object) -> int:
    if type(time) is int and 0 <= time <= limits.INT_MAX:
        return time
    raise errors.InvalidValue(what="time", value=time, must="nanoseconds since 1970, from 0 to 2^63-1")
