"""Folds: the state of a stream or of the whole store, from the start or from a snapshot, up to a seq or a time.

A full replay and a snapshot + tail give the same state, byte for byte in canonical JSON. Snapshots, fingerprints and
pruning depend on that. Memory does not grow with the length of the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import canonical, chain, names
from tallystick.event.model import Event
from tallystick.state.reducer import Reducer
from tallystick.store import iterate
from tallystick.store.store import Store

PAGE = 5_000
NO_STATE = "apply() returned nothing; it has to return the next state"
NOTHING: frozenset[bytes] = frozenset()


class State(msgspec.Struct, kw_only=True):
    """The result of a fold. `seq`, `position`, `link` and `event_id` are those of its last event.

    `latest` is the highest time of its events, `events` how many events were folded, `snapshot` the snapshot that the
    fold started from, and `damage` the damaged range that it stopped at.
    """

    value: Any
    stream: str
    seq: int = 0
    position: int = 0
    link: bytes = chain.GENESIS
    latest: int = 0
    event_id: bytes = b""
    events: int = 0
    snapshot: bytes | None = None
    damage: str = ""

    @property
    def body(self) -> bytes:
        """The canonical JSON of the state."""
        return canonical.encode_state(self.value)

    @property
    def hash(self) -> bytes:
        """SHA-256 of the canonical state."""
        return hashlib.sha256(self.body).digest()


class Until(msgspec.Struct, frozen=True):
    """How far to fold: up to a seq, a position, a time, or (nothing given) to the end.

    A time means the longest prefix before the first event that is later: times need not rise along a stream.
    """

    seq: int | None = None
    position: int | None = None
    time: int | None = None

    def reached(self, event: Event) -> bool:
        """Whether an event comes after the end."""
        return (
            (self.seq is not None and event.seq > self.seq)
            or (self.position is not None and event.position > self.position)
            or (self.time is not None and event.time > self.time)
        )


END = Until()


def replay(
    store: Store, reducer: Reducer, start: State, *, until: Until = END, erased: Container[bytes] = NOTHING
) -> State:
    """Fold everything after a start. Events with the ids in `erased` are folded as if they were erased already."""
    return _folded(reducer, start, _pages(store, reducer, start, until), until, erased)


def _folded(
    reducer: Reducer, start: State, pages: Iterator[list[Event]], until: Until, erased: Container[bytes]
) -> State:
    apply, types, bounded = reducer.apply, reducer.types, until != END
    value, last, count, latest = reducer.to_working(start.value), None, 0, start.latest
    for events in pages:
        for event in events:
            if bounded and until.reached(event):
                return _arrived(start, reducer, value, last, count, latest)
            if erased and event.id in erased:
                event = msgspec.structs.replace(event, payload=None)
            if not types or event.type in types:
                try:
                    value = apply(value, event)
                except Exception as problem:
                    raise _failed(reducer, event, f"{type(problem).__name__}: {problem}") from problem
                if value is None:
                    raise _failed(reducer, event, NO_STATE)
            last = event
            count += 1
            if event.time > latest:
                latest = event.time
    return _arrived(start, reducer, value, last, count, latest)


def _arrived(start: State, reducer: Reducer, value: Any, last: Event | None, count: int, latest: int) -> State:
    if last is None:
        return start
    return State(
        value=reducer.to_plain(value),
        stream=start.stream,
        seq=last.seq if start.stream else 0,
        position=last.position,
        link=last.link,
        latest=latest,
        event_id=last.id,
        events=start.events + count,
        snapshot=start.snapshot,
    )


def replay_to_damage(store: Store, reducer: Reducer, start: State, *, until: Until = END) -> State:
    """Fold up to the first event that cannot be read; `damage` says why it cannot."""
    found: list[str] = []
    pages = (
        _readable_stream_pages(store, start, until, found)
        if start.stream
        else _readable(store, reducer, start, until, found)
    )
    arrived = _folded(reducer, start, pages, until, NOTHING)
    return msgspec.structs.replace(arrived, damage=found[0]) if found else arrived


def _readable(store: Store, reducer: Reducer, start: State, until: Until, found: list[str]) -> Iterator[list[Event]]:
    """The pages of the whole log before its first damage, which goes into `found`: a page ends where damage begins."""
    try:
        yield from _store_pages(store, reducer, start, until)
    except errors.Damaged as damage:
        found.append(damage.message)


def _readable_stream_pages(store: Store, start: State, until: Until, found: list[str]) -> Iterator[list[Event]]:
    """The same for a stream: a page with damage in it is refused whole, so the pages get smaller and smaller."""
    after, limit = start.seq, PAGE
    while True:
        try:
            page = store.read_stream(start.stream, after=after, until=until.seq, limit=limit)
        except errors.Damaged as damage:
            if limit == 1:
                found.append(damage.message)
                return
            limit = max(limit // 10, 1)
            continue
        if not page:
            return
        yield page
        after = page[-1].seq


def _failed(reducer: Reducer, event: Event, reason: str) -> errors.ReducerFailed:
    return errors.ReducerFailed(name=reducer.name, stream=event.stream, seq=event.seq, reason=reason)


def _pages(store: Store, reducer: Reducer, start: State, until: Until) -> Iterator[list[Event]]:
    return _stream_pages(store, start, until) if start.stream else _store_pages(store, reducer, start, until)


def _stream_pages(store: Store, start: State, until: Until) -> Iterator[list[Event]]:
    return store.stream_pages(start.stream, after=start.seq, until=until.seq, limit=PAGE)


def _store_pages(store: Store, reducer: Reducer, start: State, until: Until) -> Iterator[list[Event]]:
    """The events of the whole log that a reducer folds: events of users, of its kinds.

    Pruned events of other kinds do not matter. Pruned events of its own are refused, even if they are pruned meanwhile.
    """
    after, head = start.position, store.head()
    end = head if until.position is None else min(until.position, head)
    require_own_history(store, reducer, after=start.position)
    for page in store.pages(after=after, until=end, limit=PAGE, over_pruned=True):
        require_own_history(store, reducer, after=after)
        kinds = {name: reducer.wants(name) for name in {event.stream for event in page.events}}
        yield [event for event in page.events if kinds[event.stream]]
        after = page.through


def require_own_history(store: Store, reducer: Reducer, *, after: int) -> None:
    """Refuse a fold that starts before a pruned event that the reducer would have folded."""
    if after >= store.floor():
        return
    last = max((cut.last_position for cut in iterate.cuts(store.log) if reducer.wants(cut.stream)), default=0)
    if after < last:
        raise errors.HistoryPruned(what="positions", first=after + 1, last=last)


def initial_state(reducer: Reducer, stream: str) -> State:
    """The state before the first event."""
    return State(value=reducer.begin(), stream=stream)


def check_state(reducer: Reducer, state: State) -> bytes:
    """The canonical bytes of a state. A state that is not plain JSON is refused with the name of the reducer."""
    try:
        return state.body
    except errors.NotCanonical as problem:
        reason = f"its state is not plain JSON: {problem.message}"
        raise errors.ReducerFailed(name=reducer.name, stream=state.stream, seq=state.seq, reason=reason) from problem


def check_subject(store: Store, reducer: Reducer, stream: str, until: Until = END) -> None:
    """Refuse a fold that the reducer is not for: another kind of stream, or the store instead of a stream."""
    if (reducer.scope == "store") != (stream == ""):
        reason = f"it folds {'the whole store' if reducer.scope == 'store' else 'single streams'}"
        raise errors.ReducerInvalid(name=reducer.name, reason=reason)
    if not stream and until.seq is not None:
        raise errors.InvalidValue(
            what="until", value=f"seq {until.seq}", must="a position or a time: a store has no seq"
        )
    if stream:
        names.stream_kind(stream)
        if not reducer.wants(stream):
            reason = f"it folds streams of kind {', '.join(sorted(reducer.kinds))}, not {stream!r}"
            raise errors.ReducerInvalid(name=reducer.name, reason=reason)


def check_determinism(store: Store, reducer: Reducer, stream: str) -> State:
    """Fold twice, once with the state sent through JSON after every event. `FoldDiverged` names the first event after
    which the two states differ.
    """
    plain = initial_state(reducer, stream)
    through_json = initial_state(reducer, stream)  # an object of its own: a reducer may change its state
    value = reducer.to_working(plain.value)
    for page in _pages(store, reducer, plain, END):
        for event in page:
            if reducer.types and event.type not in reducer.types:
                continue
            value = reducer.apply(value, event)
            plain = _arrived(plain, reducer, value, event, 1, event.time)
            again = reducer.apply(reducer.to_working(canonical.decode(_shuffled(through_json.body))), event)
            through_json = _arrived(through_json, reducer, again, event, 1, event.time)
            if check_state(reducer, plain) != check_state(reducer, through_json):
                raise errors.FoldDiverged(name=reducer.name, stream=event.stream, seq=event.seq)
    return plain


def _shuffled(body: bytes) -> bytes:
    """The same JSON with the keys of every object in reverse order."""
    return msgspec.json.encode(_reversed(canonical.decode(body)))


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in sorted(value, reverse=True)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value
