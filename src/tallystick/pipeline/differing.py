"""`diff`: two versions of a reducer or a projection over the whole history: which keys differ, how, and since when.

The history is folded twice in one pass. Only keys whose last states differ are folded a second time, state beside
state, for the first event at which they part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick import errors
from tallystick.event import canonical
from tallystick.event.catalog import Catalog
from tallystick.event.model import Event
from tallystick.pipeline.carrying import carry, only_upcasters
from tallystick.pipeline.failures import clear, told
from tallystick.pipeline.folding import applied, in_order, keyed_events
from tallystick.pipeline.keys import key_name, with_key
from tallystick.pipeline.progress import Show, watched
from tallystick.pipeline.whole import Whole, whole
from tallystick.projections import model
from tallystick.state.reducer import Reducer
from tallystick.store.views import BY_STREAM

KEYS_MAX = 1000
PATHS_MAX = 20
_ABSENT = object()

Batches = Iterator[pa.RecordBatch]
_TEXT = pa.schema([("key", pa.string()), ("found", pa.binary())])


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One place in the state of a key. `by` is the difference of two numbers."""

    path: str
    old: Any = None
    new: Any = None
    by: float | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One key: the first event after which the two versions disagree, and how they differ in the end."""

    key: str
    position: int
    stream: str
    seq: int
    type: str
    changes: list[Change]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What the two versions make of the history. `differing` counts all keys, `differences` holds the first ones."""

    keys: int
    differing: int
    until: int
    differences: list[Difference]

    @property
    def same(self) -> bool:
        """Whether every key has the same state."""
        return self.differing == 0


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """A reducer or a projection as folding sees it."""

    name: str
    types: tuple[str, ...]
    key: str
    order: str
    initial: Callable[[], Any]
    change: Callable[[Any, Event], Any]

    def apply(self, state: Any, event: Event) -> Any:
        """The state after an event: as it was, if the event is of a type that this version does not take."""
        return self.change(state, event) if not self.types or event.type in self.types else state


def as_folded(given: Any) -> Folded:
    """What is to be compared."""
    if isinstance(given, Reducer):
        if given.scope != "stream":
            raise errors.ReducerInvalid(name=given.name, reason="it folds the whole store, which has one key")
        types, key, order = tuple(sorted(given.types)), BY_STREAM, model.BY_POSITION
    else:
        types, key, order = tuple(given.types), given.key, given.order
    return Folded(name=given.name, types=types, key=key, order=order, initial=given.initial, change=given.apply)


def diff(
    spark: SparkSession,
    url: str,
    old: Any,
    new: Any,
    archive: str | Path | None = None,
    *,
    catalog: Catalog | None = None,
    show: Show | None = None,
) -> Compared:
    """Compare two reducers, or two projections with the same key and order, over the whole history."""
    pair = (as_folded(old), as_folded(new))
    if (pair[0].key, pair[0].order) != (pair[1].key, pair[1].order):
        reason = "the two versions have another key or order: every row differs"
        raise errors.ProjectionInvalid(name=pair[1].name, reason=reason)
    known = only_upcasters(catalog)
    carry(old, new, known)
    with clear(), watched(spark, "diff", show):
        source = whole(url, archive, spark=spark)
        events = in_order(with_key(_chosen(spark, source, pair, old), _by_both(pair), known), pair[0]).persist()
        try:
            ends = events.mapInArrow(_ends(pair, known), "key string, found binary").persist()
            keys = ends.count()
            differing = ends.where(F.col("found").isNotNull()).select("key")
            count = differing.count()
            parted = _parted(events, differing, pair, known) if count else []
            ends.unpersist()
        finally:
            events.unpersist()
    return Compared(keys=keys, differing=count, until=source.until, differences=parted)


def _chosen(spark: SparkSession, source: Whole, pair: tuple[Folded, Folded], given: Any) -> DataFrame:
    """The events that either version takes; none of the control facts, and only of a reducer's kinds."""
    events = source.table(spark, types=_by_both(pair).types)
    events = events.where(~F.col("stream").startswith("tally."))
    kinds = sorted(given.kinds) if isinstance(given, Reducer) else []
    if kinds:
        events = events.where(F.substring_index("stream", "/", 1).isin(kinds))
    return events


def _by_both(pair: tuple[Folded, Folded]) -> Folded:
    """The first version with the types of both: no types mean all."""
    both = tuple(sorted({*pair[0].types, *pair[1].types})) if pair[0].types and pair[1].types else ()
    return msgspec.structs.replace(pair[0], types=both)


def _states(events: Iterator[tuple[str, Event]], pair: tuple[Folded, Folded]) -> Iterator[tuple[str, Event, Any, Any]]:
    """After every event: key, event, and the state of each version."""
    current: str | None = None
    states: list[Any] = []
    for key, event in events:
        if key != current:
            current, states = key, [version.initial() for version in pair]
        states = [applied(version, state, event) for version, state in zip(pair, states, strict=True)]
        yield key, event, states[0], states[1]


def _ends(pair: tuple[Folded, Folded], catalog: Catalog) -> Callable[[Batches], Batches]:
    """A row a key; `found` is null where both versions end with the same state."""

    def run(batches: Batches) -> Batches:
        with told():
            last: tuple[str, Any, Any] | None = None
            rows: list[tuple[str, bytes | None]] = []
            for key, _, old, new in _states(keyed_events(batches, pair[0], catalog), pair):
                if last is not None and last[0] != key:
                    rows.append(_end(*last))
                last = (key, old, new)
            if last is not None:
                rows.append(_end(*last))
            if rows:
                yield pa.RecordBatch.from_arrays(
                    [pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.binary())],
                    schema=_TEXT,
                )

    return run


def _end(key: str, old: Any, new: Any) -> tuple[str, bytes | None]:
    same = canonical.encode_state(old) == canonical.encode_state(new)
    return key, None if same else b"differs"


def _parted(events: DataFrame, differing: DataFrame, pair: tuple[Folded, Folded], catalog: Catalog) -> list[Difference]:
    """For the first differing keys: where they part, and how they end."""
    name = key_name(pair[0])
    chosen = differing.orderBy("key").limit(KEYS_MAX).withColumnRenamed("key", name)
    again = in_order(events.join(F.broadcast(chosen), name, "left_semi"), pair[0])
    rows = again.mapInArrow(_partings(pair, catalog), "key string, found binary").orderBy("key").collect()
    return [msgspec.json.decode(bytes(row["found"]), type=Difference) for row in rows]


def _partings(pair: tuple[Folded, Folded], catalog: Catalog) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        with told():
            first: dict[str, Event] = {}
            ends: dict[str, tuple[Any, Any]] = {}
            for key, event, old, new in _states(keyed_events(batches, pair[0], catalog), pair):
                if key not in first and canonical.encode_state(old) != canonical.encode_state(new):
                    first[key] = event
                ends[key] = (old, new)
            found = [(key, _difference(key, first[key], *ends[key])) for key in first]
            if found:
                arrays = [
                    pa.array([key for key, _ in found], pa.string()),
                    pa.array([text for _, text in found], pa.binary()),
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=_TEXT)

    return run


def _difference(key: str, event: Event, old: Any, new: Any) -> bytes:
    changes = list(_changes("", old, new))[:PATHS_MAX]
    return msgspec.json.encode(
        Difference(
            key=key, position=event.position, stream=event.stream, seq=event.seq, type=event.type, changes=changes
        )
    )


def _changes(path: str, old: Any, new: Any) -> Iterator[Change]:
    """The places at which two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _changes(f"{path}/{key}", old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif _text(old) != _text(new):
        numbers = all(type(value) in (int, float) for value in (old, new))
        yield Change(path=path or "/", old=_plain(old), new=_plain(new), by=new - old if numbers else None)


def _text(value: Any) -> bytes:
    return b"" if value is _ABSENT else canonical.encode_state(value)


def _plain(value: Any) -> Any:
    return None if value is _ABSENT else value
