"""Folding on Spark: all events of a key go to one task, in order, and Python holds few events and states at a time.

    packets of events → repartition → sortWithinPartitions → mapInArrow

If the order is not that of positions, or there are too many events for packets, the events go through the shuffle one
by one, sorted by key, and one state is held at a time. The JVM sorts and spills to disk, so a key may have more events
than fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick import errors
from tallystick.event import canonical
from tallystick.event.catalog import Catalog
from tallystick.event.model import Event
from tallystick.pipeline.fold import packets, pieces
from tallystick.pipeline.fold.keys import key_name, with_key
from tallystick.pipeline.fold.pieces import StreamFilter
from tallystick.pipeline.source import columns
from tallystick.pipeline.source.columns import Batches
from tallystick.pipeline.spark import tasks
from tallystick.pipeline.spark.failures import mark_errors
from tallystick.pipeline.whole_log import WholeLog
from tallystick.projections import model
from tallystick.state.reducer import Reducer
from tallystick.store.views import KEY_CHARACTERS_MAX

ROWS_DDL = "key string, state binary, mark binary"
ROWS_SCHEMA = pa.schema([("key", pa.string()), ("state", pa.binary()), ("mark", pa.binary())])
ROWS_A_BATCH = 10_000
_HASH = "hash_of_key"

Keyed = tuple[list[str], list[Any], list[Event]]  # keys, groups of keys whose states are held together, events
Runs = Callable[[Batches, Any, Catalog], Iterator[Keyed]]
Row = tuple[str, bytes, bytes]
AsRow = Callable[[Any, str, Any, Any], Row]  # from a projection, a key, its last state, and its last event's location


def fold(
    spark: SparkSession,
    source: WholeLog,
    projection: Any,
    catalog: Catalog,
    *,
    streams: StreamFilter | None = None,
    row: AsRow | None = None,
) -> DataFrame:
    """(key, state, mark): the rows of a projection over the whole log, or what `row` returns for each state."""
    events, runs = keyed_events(spark, source, projection, catalog, streams=streams)
    return events.mapInArrow(_folding(projection, catalog, runs, row or _row), ROWS_DDL)


def keyed_events(
    spark: SparkSession,
    source: WholeLog,
    projection: Any,
    catalog: Catalog,
    *,
    streams: StreamFilter | None = None,
    keys: Sequence[str] | None = None,
) -> tuple[DataFrame, Runs]:
    """The events of each key, together and in order, and the function that reads them; only of `keys`, if given."""
    parts_max = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    plan = packets.plan(source.until, parts_max=parts_max) if projection.order == model.BY_POSITION else None
    if plan is None:
        events = source.table(spark, types=projection.types)
        found = with_key(events if streams is None else streams.among(events), projection, catalog)
        if keys is not None:
            found = found.where(F.col(key_name(projection)).isin(list(keys)))
        return in_order(found, projection), _keyed
    cut, reader = pieces.cut_pieces(source, projection.types, cores=tasks.cores(spark), streams=streams)
    return packets.packet_table(spark, cut, reader, projection, catalog, plan, keys), packets.unpack


def in_order(events: DataFrame, projection: Any) -> DataFrame:
    """The events of each key together, in the order of the projection."""
    key = F.col(key_name(projection))
    together = events.withColumn(_HASH, F.xxhash64(key)).repartition(F.col(_HASH))
    if projection.order == model.BY_POSITION:
        order = [F.col("position")]
    else:
        order = [F.get_json_object("meta", "$.lamport").cast("bigint"), F.col("id"), F.col("link")]
    return together.sortWithinPartitions(F.col(_HASH), key, *order).drop(_HASH)


def _keyed(batches: Batches, projection: Any, catalog: Catalog) -> Iterator[Keyed]:
    """Keys and upcast events. They are sorted by key, so each key is its own group."""
    name = key_name(projection)
    for batch in batches:
        keys = batch.column(name).to_numpy(zero_copy_only=False).tolist()
        yield keys, keys, catalog.upcast(list(columns.to_events(batch)))


def require_key(projection: Any, key: str | None, event: Event) -> None:
    """Refuse an invalid key, as the in-process runner does."""
    if not key or len(key) > KEY_CHARACTERS_MAX:
        model.key_of(projection, event)
        raise errors.JobFailed(reason=f"no key was found for seq {event.seq} of {event.stream!r}")


def _folding(projection: Any, catalog: Catalog, runs: Runs, as_row: AsRow) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        with mark_errors():
            rows: list[Row] = []
            for row in _rows(runs(batches, projection, catalog), projection, as_row):
                rows.append(row)
                if len(rows) >= ROWS_A_BATCH:
                    yield _batch(rows)
                    rows.clear()
            if rows:
                yield _batch(rows)

    return run


def _batch(rows: list[Row]) -> pa.RecordBatch:
    arrays = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), ROWS_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS_SCHEMA)


def _rows(runs: Iterator[Keyed], projection: Any, as_row: AsRow) -> Iterator[Row]:
    """The row of each key, after the last event of its group. Every event goes through this one loop."""
    current: str | None = None
    group: Any = None
    state: Any = None
    last: Event | None = None
    waiting: dict[str, tuple[Any, Any]] = {}  # the other keys of the group
    located = _place if projection.order == model.BY_POSITION else _whole
    for keys, groups, events in runs:
        for key, at, event in zip(keys, groups, events, strict=True):
            if key != current or current is None:
                require_key(projection, key, event)
                if current is not None and last is not None:
                    waiting[current] = (state, located(last))
                if at != group:
                    yield from _ended(projection, waiting, as_row)
                    waiting.clear()
                    group = at
                current = key
                state = waiting[key][0] if key in waiting else projection.initial()
            state = apply_event(projection, state, event)
            last = event
    if current is not None and last is not None:
        waiting[current] = (state, located(last))
    yield from _ended(projection, waiting, as_row)


class _LastEvent(NamedTuple):
    """The location of the last event of a key: enough for errors, and smaller than the event."""

    stream: str
    seq: int
    position: int


def _place(event: Event) -> _LastEvent:
    return _LastEvent(event.stream, event.seq, event.position)


def _whole(event: Event) -> Event:
    return event


def _ended(projection: Any, waiting: dict[str, tuple[Any, Any]], as_row: AsRow) -> Iterator[Row]:
    return (as_row(projection, key, state, last) for key, (state, last) in waiting.items())


def apply_event(projection: Any, state: Any, event: Event) -> Any:
    """The state after an event; an error of the projection is raised with the event's name."""
    try:
        state = projection.apply(state, event)
    except errors.TallyError:
        raise
    except Exception as problem:
        raise failure(projection, event, f"{type(problem).__name__}: {problem}") from problem
    if state is None:
        raise failure(projection, event, model.NO_STATE)
    return state


def failure(projection: Any, event: Event | _LastEvent, reason: str) -> errors.TallyError:
    """The error for a projection or reducer that failed at an event."""
    if isinstance(projection, Reducer):
        return errors.ReducerFailed(name=projection.name, stream=event.stream, seq=event.seq, reason=reason)
    return errors.ProjectionFailed(
        name=projection.name, stream=event.stream, seq=event.seq, position=event.position, reason=reason
    )


def encode_state(projection: Any, state: Any, last: Any) -> bytes:
    """The canonical bytes of a state; an invalid state is refused with the name of its last event."""
    try:
        return canonical.encode_state(state)
    except errors.InvalidInput as problem:
        raise failure(projection, last, problem.message) from problem


def _row(projection: Any, key: str, state: Any, last: Any) -> Row:
    body = encode_state(projection, state, last)
    if projection.order == model.BY_POSITION:
        return key, body, b""
    mark = projection.mark(last)
    if mark is None:
        raise failure(projection, last, "it has no lamport in its meta")
    return key, body, mark
