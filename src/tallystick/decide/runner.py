"""Running decisions: load the state, decide, append if nothing happened meanwhile, and decide again if something did.

A decision with an idempotency key is a command: its record and its events are one commit, so it takes effect once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import msgspec

from tallystick import errors
from tallystick.commands import Answer, CommandKey, Commands
from tallystick.commands import Decision as Effect
from tallystick.commands.runner import CONFLICT_TRIES, Attempts, carry_out, check_key
from tallystick.decide.model import Decision, Definition, Evolves, FunctionDecider, S
from tallystick.event import canonical, ids, names
from tallystick.event.model import Event, NewEvent, is_model
from tallystick.event.plain_form import PlainForm, plain
from tallystick.event.typed import Models
from tallystick.state import snapshots
from tallystick.state.fold import State, replay
from tallystick.state.reducer import Reducer
from tallystick.store.capabilities import MAINTENANCE
from tallystick.store.new_events import tags_of
from tallystick.store.prepare import Part
from tallystick.store.query import Marker, Query, match
from tallystick.store.store import Store

P = ParamSpec("P")
Data = TypeVar("Data")
Found = TypeVar("Found", covariant=True)

NO_ACTOR = "-"


class Boundary(msgspec.Struct, frozen=True):
    """What a decision depends on if that is not one stream: the events of a query, and the stream that it appends to.

    An item of the query without types matches the types that the decider takes.
    """

    query: Query
    stream: str

    def __post_init__(self) -> None:
        if type(self.query) is not Query:
            raise errors.InvalidValue(what="query of a boundary", value=names.display(self.query), must="a Query")
        names.stream_kind(self.stream)


class Loaded(msgspec.Struct, Generic[S], frozen=True):
    """The state of a stream, and the seq of the last event in it: 0 if the stream does not exist, and for a boundary.

    `folded` is the number of events that were folded to get it, after the snapshot if there was one.
    """

    state: S
    seq: int
    folded: int
    marker: Marker | None = None


class Decided(msgspec.Struct, Generic[Found], frozen=True):
    """What a decision came to: where its events are, and the seq of the stream after them.

    `repeated`: it took effect before, under the same idempotency key. `first_seq` is 0 if there are no events.
    """

    stream: str
    first_seq: int
    seq: int
    repeated: bool
    found: Any

    @property
    def events(self) -> tuple[Found, ...]:
        """The instances that were appended; `Erased` for one that was erased since. Raises if they were pruned."""
        if isinstance(self.found, errors.TallyError):
            raise errors.copy(self.found)
        events: tuple[Found, ...] = self.found
        return events


class Core(Generic[S, Data]):
    """What running a decider on a store and on one in an event loop have in common."""

    def __init__(self, store: Store, decider: Any, *, conflict_tries: int) -> None:
        self._definition = definition = Definition(decider)
        self._log_store = store
        self._commands = Commands(store, conflict_tries=conflict_tries)
        self._models = Models(store.catalog, definition.taken, reader=f"{definition.name}.evolve()")
        self._key: str | None = None
        self._meta: dict[str, Any] = {}
        self._form: PlainForm | None = None
        initial, name = definition.initial, definition.name
        if definition.snapshot_every is not None:
            if MAINTENANCE not in store.log.capabilities:
                raise errors.UnsupportedCapability(engine=store.log.engine, capability=MAINTENANCE)
            self._form = definition.state_form()
            name, initial = definition.fingerprint(), lambda: self._plain(definition.initial())
        self.reducer = Reducer(
            name=name,
            version=definition.version,
            initial=initial,
            apply=self._apply,
            working=self._working if self._form else None,
            plain=self._plain if self._form else None,
        )

    def _with(self, key: str | None, cause: Event | None, meta: dict[str, Any]) -> Any:
        if cause is not None and not isinstance(cause, Event):
            raise errors.InvalidValue(what="cause", value=names.display(cause), must="a recorded Event, or None")
        other = copy.copy(self)
        other._key = key
        other._meta = self._meta | ({} if cause is None else _caused_by(cause)) | meta
        return other

    def _plain(self, state: Any) -> Any:
        assert self._form is not None
        try:
            return self._form.plain(state)
        except Exception:  # pydantic's own, which quotes the state
            reason = f"its state is a {type(state).__name__}, not what initial() returns, or has no JSON form"
        raise self._definition.invalid(reason)

    def _working(self, plain_state: Any) -> Any:
        assert self._form is not None
        try:
            return self._form.value(plain_state)
        except Exception:  # as above
            reason = "the state in a snapshot is not what initial() returns; raise its version"
        raise self._definition.invalid(reason)

    def _apply(self, state: Any, event: Event) -> Any:
        if event.type in self._definition.ignored:
            return state
        return self._evolved(state, self._models.instance(event))

    def _evolved(self, state: Any, data: Any) -> Any:
        found = self._definition.evolve(state, data)
        if found is None:
            raise self._definition.invalid("evolve() returned nothing; it must return the next state")
        return found

    def _load(self, subject: str | Boundary, *, snapshot: bool = False) -> Loaded[S]:
        """The state of a stream or of a boundary. With `snapshot` a snapshot of the stream is made if it is due."""
        return self._consulted(subject) if isinstance(subject, Boundary) else self._folded(subject, snapshot=snapshot)

    def _consulted(self, boundary: Boundary) -> Loaded[S]:
        taken = self._models.types
        items = [match(item.types or taken, item.tags) for item in boundary.query.items]
        found = self._log_store.consult(reduce(or_, items), org=self._meta.get("org"))
        state = self._definition.initial()
        for event in found.events:
            try:
                state = self._apply(state, event)
            except errors.TallyError:
                raise
            except Exception as problem:  # evolve is the user's
                name, reason = self._definition.name, errors.reason_of(problem)
                raise errors.ReducerFailed(name=name, stream=event.stream, seq=event.seq, reason=reason) from problem
        return Loaded(state, 0, len(found.events), found.marker)

    def _folded(self, stream: str, *, snapshot: bool) -> Loaded[S]:
        """The state of a stream, from a snapshot if it has them."""
        store, every = self._log_store, self._definition.snapshot_every
        try:
            if self._form is None or every is None:
                start = State(value=self._definition.initial(), stream=stream)
                state = replay(store, self.reducer, start)
                return Loaded(state.value, state.seq, state.events)
            state = snapshots.fold(store, self.reducer, stream)
            if snapshot and state.events >= every:
                with suppress(errors.Conflict):  # somebody else snapshots it now
                    snapshots.make(store, self.reducer, stream)
            return Loaded(self._working(state.value), state.seq, state.events)
        except errors.ReducerFailed as failed:
            if isinstance(failed.__cause__, errors.TallyError):  # it names the stream and the seq too
                raise failed.__cause__ from None
            raise

    def _attempts(
        self, subject: str | Boundary, given: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> Attempts[Decided[Data]]:
        stream = subject.stream if isinstance(subject, Boundary) else subject
        names.stream_kind(stream)
        decision = self._definition.decision(given, args, named)
        made: list[Any] = []

        def decide(now: int) -> Effect:
            loaded = self._load(subject, snapshot=True)
            events = self._events(decision, loaded.state)
            made[:] = [event.payload for event in events]
            response = {"seq": loaded.seq + len(events)}
            if loaded.marker is not None:
                parts = [Part(stream, events)] if events else []
                return Effect(parts, response, unless=loaded.marker, org=self._meta.get("org"))
            parts = [Part(stream, events, loaded.seq)] if events else []
            return Effect(parts, response, require=() if events else ((stream, loaded.seq),))

        request = self._request(stream, decision)
        answer = yield from self._commands.attempts(decide, key=self._command(), request=request, stamp=self._stamp)
        return self._decided(stream, answer, made)

    def _events(self, decision: Decision, state: S) -> list[NewEvent]:
        """The events that follow from a decision. They are folded first: a stream never gets what no state can take."""
        returned = decision.make(state)
        if returned is None:
            raise errors.DecisionInvalid(decision=decision.name, reason="it returned nothing")
        given = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        events = [self._event(decision, event) for event in given]
        for event in events:
            try:
                state = self._evolved(state, event.payload)
            except Exception as problem:  # evolve is the user's
                reason = f"evolve() fails on the {type(event.payload).__name__} that it returned"
                reason = f"{reason}: {errors.reason_of(problem)}"
                raise errors.DecisionInvalid(decision=decision.name, reason=reason) from problem
        return events

    def _event(self, decision: Decision, given: Any) -> NewEvent:
        model = given.payload if type(given) is NewEvent else given
        taken = self._models.taken
        if not is_model(type(model)) or (taken and type(model) not in taken):
            reason = f"it returned {names.display(model)!r}, which evolve() does not take"
            raise errors.DecisionInvalid(decision=decision.name, reason=reason)
        type_, version = self._log_store.catalog.name_of(type(model))
        if type(given) is not NewEvent:
            return NewEvent(type_, model, version=version, tags=tags_of(model))
        if (given.type, given.version or version) != (type_, version):
            reason = f"it returned a {type(model).__name__} as {given.type}, but it is {type_} version {version}"
            raise errors.DecisionInvalid(decision=decision.name, reason=reason)
        return given if given.tags else msgspec.structs.replace(given, tags=tags_of(model))

    # --- commands --------------------------------------------------------------------------------------------------

    @property
    def _stamp(self) -> dict[str, Any]:
        return self._meta if self._key is None else {"idempotency_key": self._key} | self._meta

    def _command(self) -> CommandKey | None:
        if self._key is None:
            return None
        org, actor = self._meta.get("org", ""), self._meta.get("actor_id", NO_ACTOR)
        key = CommandKey(org, actor, self._definition.name, self._key)
        check_key(key)
        return key

    def _request(self, stream: str, decision: Decision) -> Any:
        if self._key is None:
            return None
        try:
            request = plain({"stream": stream} | decision.request)
            canonical.encode_state(request)
        except Exception as problem:  # pydantic's own, or ours
            reason = f"with an idempotency key, its arguments must have a JSON form: {errors.reason_of(problem)}"
            raise errors.DecisionInvalid(decision=decision.name, reason=reason) from problem
        return request

    def _decided(self, stream: str, answer: Answer, made: list[Any]) -> Decided[Data]:
        first, last = answer.ranges[0][1:] if answer.ranges else (0, 0)
        seq = last or (answer.response["seq"] if answer.response else 0)
        found: Any = tuple(made)
        if answer.repeated:
            try:
                events = self._log_store.stream(stream, after=first - 1, until=last) if first else ()
                found = tuple(map(self._models.instance_or_erased, events))
            except errors.TallyError as problem:
                found = errors.copy(problem)
        return Decided(stream, first, seq, answer.repeated, found)


class Decisions(Core[S, Data]):
    """Runs the decisions of one decider on a store. The store's catalog must have the models of its events.

    `reducer` is what its snapshots are made by: pruning, sealing and retention take it.
    """

    @overload
    def __init__(
        self, store: Store, decider: FunctionDecider[S, Data], *, conflict_tries: int = CONFLICT_TRIES
    ) -> None: ...
    @overload
    def __init__(
        self, store: Store, decider: type[Evolves[S, Data]], *, conflict_tries: int = CONFLICT_TRIES
    ) -> None: ...
    def __init__(self, store: Store, decider: Any, *, conflict_tries: int = CONFLICT_TRIES) -> None:
        super().__init__(store, decider, conflict_tries=conflict_tries)

    def request(
        self, *, idempotency_key: str | None = None, cause: Event | None = None, **meta: Any
    ) -> Decisions[S, Data]:
        """The same for one request: with this key a decision takes effect once, and its events have this meta.

        `cause` is the event that the request comes from: its id becomes `causation_id`, its correlation is continued.
        """
        other: Decisions[S, Data] = self._with(idempotency_key, cause, meta)
        return other

    def load(self, subject: str | Boundary) -> Loaded[S]:
        """The state of a stream or of a boundary now."""
        return self._load(subject)

    @overload
    def run(
        self,
        subject: str | Boundary,
        decision: Callable[Concatenate[Any, S, P], Data | NewEvent | Sequence[Data | NewEvent]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> Decided[Data]: ...
    @overload
    def run(
        self,
        subject: str | Boundary,
        decision: Callable[Concatenate[S, P], Data | NewEvent | Sequence[Data | NewEvent]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> Decided[Data]: ...
    def run(self, subject: str | Boundary, decision: Any, /, *args: Any, **named: Any) -> Decided[Data]:
        """Decide on the state of a stream or of a boundary, and append the events that follow.

        If others appended to it meanwhile, it decides again, a bounded number of times. If the decision raises,
        nothing is written.
        """
        return carry_out(self._log_store, self._attempts(subject, decision, args, named))


def _caused_by(event: Event) -> dict[str, str]:
    id_ = ids.to_text(event.id)
    return {"causation_id": id_, "correlation_id": event.metadata.get("correlation_id", id_)}
