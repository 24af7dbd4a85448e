"""Running commands: the record of a command, its events and its response become durable in one commit.

The engine refuses a commit whose record exists already. So of two callers with one key one wins, and the other gets
the winner's response. A handler that raises stores nothing, and may run again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from types import NoneType
from typing import Any, TypeAlias, TypeVar

import msgspec

from tallystick import errors
from tallystick.commands.model import Answer, Context, Decision, Handler
from tallystick.event import canonical, limits, names
from tallystick.event.model import NewEvent
from tallystick.store import new_events
from tallystick.store.backoff import Backoff
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.idempotency import ERASED_RESPONSE, CommandKey, CommandRecord
from tallystick.store.prepare import Part, Request, part_of
from tallystick.store.store import Store

CONFLICT_TRIES = 10
RETRIED = (errors.Conflict, errors.ConditionFailed, errors.CommandRepeated)

T = TypeVar("T")
Attempts: TypeAlias = Generator[Request, Outcome, T]
"""Requests to submit, each after the outcome of the one before, and in the end a result.

Who submits them is left open, so that it is the same for a store and for a store in an event loop.
"""


class Commands:
    """Runs commands against one store."""

    def __init__(
        self, store: Store, clock: Callable[[], int] | None = None, *, conflict_tries: int = CONFLICT_TRIES
    ) -> None:
        self._store = store
        self._clock = clock or store.clock
        self._conflict_tries = conflict_tries

    def run(self, *, key: CommandKey, request: Any, handler: Handler) -> Answer:
        """The response to a request: the stored one if it took effect before, otherwise that of the handler now.

        The same key with another request raises `IdempotencyKeyReuse`. After a `Conflict`, or a `ConditionFailed`, the
        handler decides again on what is there then, a bounded number of times. It must have no effect but its decision.
        """
        check_key(key)
        stamp = {"idempotency_key": key.key, "actor_id": key.actor} | ({"org": key.org} if key.org else {})

        def decide(now: int) -> Decision:
            return handler(Context(self._store, key, request, now))

        return carry_out(self._store, self.attempts(decide, key=key, request=request, stamp=stamp))

    def attempts(
        self, decide: Callable[[int], Decision], *, key: CommandKey | None, request: Any, stamp: dict[str, Any]
    ) -> Attempts[Answer]:
        """Decide at a time, and again after each conflict: what to submit, each after the outcome of the one before.

        `stamp` is meta for every event that does not have its own. Without a key nothing is recorded.
        """
        request_hash = hashlib.sha256(canonical.encode_state(request)).digest()
        backoff = Backoff("command", tries_max=self._conflict_tries - 1)
        while True:
            if key is not None and (stored := self._stored(key, request_hash)) is not None:
                return stored
            now = _checked_time(self._clock())
            decision = _checked(decide(now))
            response = canonical.encode_state(decision.response)
            if len(response) > limits.EVENT_BYTES_MAX:
                size, limit = len(response), limits.EVENT_BYTES_MAX
                raise errors.TooLarge(what="the response", size=size, unit="bytes", limit=limit)
            parts = [self._part(part, stamp) for part in decision.parts]
            record = None if key is None else CommandRecord(key, request_hash, response, now)
            if parts:
                unless, org = decision.unless, decision.org
                outcome = yield Request(parts, require=decision.require, command=record, unless=unless, org=org)
            else:
                outcome = self._record(decision, record)
            if not isinstance(outcome, errors.TallyError):
                ranges = tuple((done.stream, done.first_seq, done.last_seq) for done in outcome)
                return Answer(canonical.decode(response), False, ranges)
            if not isinstance(outcome, RETRIED) or not backoff.pause():
                raise outcome

    def _stored(self, key: CommandKey, request_hash: bytes) -> Answer | None:
        record = self._store.log.commands.load(key)
        if record is None:
            return None
        if record.request_hash != request_hash:
            raise errors.IdempotencyKeyReuse(**msgspec.structs.asdict(key))
        if record.response == ERASED_RESPONSE:
            return Answer(None, True, record.ranges, erased=True)
        return Answer(canonical.decode(record.response), True, record.ranges)

    def _part(self, given: Any, stamp: dict[str, Any]) -> Part:
        part = part_of(given)
        events = new_events.checked(part.events, self._store.catalog)
        return Part(part.stream, [_stamped(event, stamp) for event in events], part.expected)

    def _record(self, decision: Decision, record: CommandRecord | None) -> Outcome:
        """Record a command that appends nothing."""
        if record is None:
            return []
        if self._store.log.readonly:
            raise errors.ReadOnly(reason=f"{self._store.log.url} was opened for reading")
        return self._store.log.commit([Transaction([], require=decision.require, command=record)])[0]


def carry_out(store: Store, attempts: Attempts[T]) -> T:
    """Submit each request of some attempts, and return what they come to."""
    try:
        request = next(attempts)
        while True:
            request = attempts.send(store.submit([request])[0])
    except StopIteration as done:
        found: T = done.value
        return found


def check_key(key: CommandKey) -> None:
    """Refuse a key that is not one, or with a name that no engine can store."""
    if type(key) is not CommandKey:
        raise errors.InvalidValue(what="key", value=names.display(key), must="a commands.CommandKey")
    for name, value in msgspec.structs.asdict(key).items():
        if name != "org" or value:  # a command outside of all tenants has no org
            names.check_label(f"{name} of a command", value)


def _checked_time(now: object) -> int:
    """The time of a record, in ns. A time in seconds is refused: such a record would be deleted at once."""
    if type(now) is not int or not 0 <= now <= limits.INT_MAX:
        raise errors.InvalidValue(what="time of a command", value=names.display(now), must="a number of nanoseconds")
    return now


def _checked(decision: Decision) -> Decision:
    if type(decision) is not Decision:
        raise errors.InvalidValue(what="decision", value=names.display(decision), must="a commands.Decision")
    for name in ("parts", "require"):
        given = getattr(decision, name)
        if not isinstance(given, (tuple, list)):
            raise errors.InvalidValue(what=f"{name} of a decision", value=names.display(given), must="a list")
    for required in decision.require:
        _check_required(required)
    return decision


def _check_required(required: object) -> None:
    """Refuse a requirement on an invalid name: no such stream exists, so the requirement would never fail."""
    if not isinstance(required, (tuple, list)) or len(required) != 2:
        raise errors.InvalidValue(what="requirement", value=names.display(required), must="(stream, seq)")
    stream, seq = required
    names.stream_kind(stream)
    if type(seq) is not int or not 0 <= seq <= limits.INT_MAX:
        raise errors.InvalidValue(what="seq of a requirement", value=names.display(seq), must="a number from 0 on")


def _stamped(event: NewEvent, stamp: dict[str, Any]) -> NewEvent:
    """The event with more meta. If its meta is not an object, it is passed on: the store refuses it."""
    if not isinstance(event.meta, (dict, NoneType)):
        return event
    return msgspec.structs.replace(event, meta=stamp | (event.meta or {}))
