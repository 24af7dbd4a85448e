"""`diff`: compare two versions of a reducer or a projection over the whole history: which keys differ, how, since when.

Both versions fold the history in one pass. Only keys whose last states differ are folded a second time, to find the
first event after which they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick import errors
from tallystick.event import canonical
from tallystick.event.catalog import Catalog
from tallystick.event.model import Event
from tallystick.pipeline.fold.pieces import StreamFilter
from tallystick.pipeline.fold.states import Runs, apply_event, encode_state, fold, keyed_events
from tallystick.pipeline.source.columns import Batches
from tallystick.pipeline.spark.failures import clear, mark_errors
from tallystick.pipeline.spark.progress import Show, watched
from tallystick.pipeline.spark.user_modules import only_upcasters, ship_modules
from tallystick.pipeline.whole_log import WholeLog, whole_log
from tallystick.projections import model
from tallystick.state.reducer import Reducer
from tallystick.store.views import BY_STREAM

KEYS_MAX = 1000
PATHS_MAX = 20
_ABSENT = object()
_DIFFERS = b"differs"

_TEXT = pa.schema([("key", pa.string()), ("found", pa.binary())])


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """One path at which two states differ. `by` is the difference of two numbers."""

    path: str
    old: Any = None
    new: Any = None
    by: float | None = None


class KeyDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One key: the first event after which the versions differ, and how their last states differ."""

    key: str
    position: int
    stream: str
    seq: int
    type: str
    changes: list[StateChange]


class DiffResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result. `differing` counts all keys that differ, `differences` has the first of them."""

    keys: int
    differing: int
    until: int
    differences: list[KeyDifference]

    @property
    def same(self) -> bool:
        """Whether every key has the same state."""
        return self.differing == 0


class FoldSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A reducer or a projection, in the form that folding needs."""

    name: str
    types: tuple[str, ...]
    key: str
    order: str
    initial: Callable[[], Any]
    change: Callable[[Any, Event], Any]

    def apply(self, state: Any, event: Event) -> Any:
        """The state after an event: as it was, if the event is of a type that this version does not take."""
        return self.change(state, event) if not self.types or event.type in self.types else state


def fold_spec(given: Any) -> FoldSpec:
    """What is to be compared."""
    if isinstance(given, Reducer):
        if given.scope != "stream":
            raise errors.ReducerInvalid(name=given.name, reason="it folds the whole store, which has one key")
        types, key, order = tuple(sorted(given.types)), BY_STREAM, model.BY_POSITION
    else:
        types, key, order = tuple(given.types), given.key, given.order
    return FoldSpec(name=given.name, types=types, key=key, order=order, initial=given.initial, change=given.apply)


class Both:
    """Two versions as one projection: its state is the state of each."""

    def __init__(self, old: FoldSpec, new: FoldSpec) -> None:
        self.name, self.key, self.order = old.name, old.key, old.order
        self.types = tuple(sorted({*old.types, *new.types})) if old.types and new.types else ()  # none mean all
        self.versions = (old, new)

    def initial(self) -> tuple[Any, Any]:
        """Nothing yet, of each."""
        old, new = self.versions
        return old.initial(), new.initial()

    def apply(self, states: tuple[Any, Any], event: Event) -> tuple[Any, Any]:
        """What each makes of an event."""
        old, new = self.versions
        return apply_event(old, states[0], event), apply_event(new, states[1], event)

    def differ(self, states: tuple[Any, Any], last: Any) -> bool:
        """Whether the states are not the same."""
        old, new = (encode_state(version, state, last) for version, state in zip(self.versions, states, strict=True))
        return old != new


def diff(
    spark: SparkSession,
    url: str,
    old: Any,
    new: Any,
    archive: str | Path | None = None,
    *,
    catalog: Catalog | None = None,
    show: Show | None = None,
) -> DiffResult:
    """Compare two reducers, or two projections with the same key and order, over the whole history."""
    both = Both(fold_spec(old), fold_spec(new))
    if (both.versions[1].key, both.versions[1].order) != (both.key, both.order):
        reason = "the two versions have another key or order: every row differs"
        raise errors.ProjectionInvalid(name=both.versions[1].name, reason=reason)
    known = only_upcasters(catalog)
    ship_modules(old, new, known)
    streams = StreamFilter(kinds=tuple(sorted(old.kinds)) if isinstance(old, Reducer) else ())
    with clear(), watched(spark, "diff", show):
        source = whole_log(url, archive, spark=spark)
        ends = fold(spark, source, both, known, streams=streams, row=_end).persist()
        differing = F.col("state") == F.lit(_DIFFERS)
        try:
            keys, count = ends.agg(F.count("key"), F.count_if(differing)).collect()[0]
            chosen = ends.where(differing).orderBy("key").limit(KEYS_MAX).select("key").collect()
        finally:
            ends.unpersist()
        found = _differences(spark, source, both, known, streams, [row["key"] for row in chosen]) if count else []
    return DiffResult(keys=keys, differing=count, until=source.until, differences=found)


def _end(both: Any, key: str, states: Any, last: Any) -> tuple[str, bytes, bytes]:
    """The row of a key: whether both versions end with the same state."""
    return key, _DIFFERS if both.differ(states, last) else b"", b""


def _differences(
    spark: SparkSession, source: WholeLog, both: Both, catalog: Catalog, streams: StreamFilter, keys: list[str]
) -> list[KeyDifference]:
    """Where these keys begin to differ, and how their last states differ."""
    events, runs = keyed_events(spark, source, both, catalog, streams=streams, keys=keys)
    rows = events.mapInArrow(_difference_task(both, catalog, runs), "key string, found binary").orderBy("key").collect()
    return [msgspec.json.decode(bytes(row["found"]), type=KeyDifference) for row in rows]


def _difference_task(both: Both, catalog: Catalog, runs: Runs) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        with mark_errors():
            first: dict[str, Event] = {}
            ends: dict[str, tuple[Any, Any]] = {}
            for keys, _, events in runs(batches, both, catalog):
                for key, event in zip(keys, events, strict=True):
                    ends[key] = both.apply(ends[key] if key in ends else both.initial(), event)
                    if key not in first and both.differ(ends[key], event):
                        first[key] = event
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
        KeyDifference(
            key=key, position=event.position, stream=event.stream, seq=event.seq, type=event.type, changes=changes
        )
    )


def _changes(path: str, old: Any, new: Any) -> Iterator[StateChange]:
    """The paths at which two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _changes(f"{path}/{key}", old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif _text(old) != _text(new):
        numbers = all(type(value) in (int, float) for value in (old, new))
        yield StateChange(path=path or "/", old=_plain(old), new=_plain(new), by=new - old if numbers else None)


def _text(value: Any) -> bytes:
    return b"" if value is _ABSENT else canonical.encode_state(value)


def _plain(value: Any) -> Any:
    return None if value is _ABSENT else value
