"""Folding on Spark: the events of a key come to one task, in order, and Python holds one batch and one state.

    repartition(key) → sortWithinPartitions(key, order) → mapInArrow

The sort spills to disk in the JVM, so a key with more events than memory is folded all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick import errors
from tallystick.event import canonical
from tallystick.event.catalog import Catalog
from tallystick.event.model import Event
from tallystick.pipeline import columns
from tallystick.pipeline.failures import told
from tallystick.pipeline.keys import KEY, with_key
from tallystick.projections import model
from tallystick.state.reducer import Reducer
from tallystick.store.views import KEY_CHARACTERS_MAX

ROWS_DDL = "key string, state binary, mark binary"
ROWS_SCHEMA = pa.schema([("key", pa.string()), ("state", pa.binary()), ("mark", pa.binary())])
ROWS_A_BATCH = 10_000

Batches = Iterator[pa.RecordBatch]


def fold(events: DataFrame, projection: Any, catalog: Catalog) -> DataFrame:
    """(key, state, mark): the rows of a projection over these events, which are those of its types."""
    return in_order(with_key(events, projection, catalog), projection).mapInArrow(
        _folding(projection, catalog), ROWS_DDL
    )


def in_order(keyed: DataFrame, projection: Any) -> DataFrame:
    """The events of each key together, in the order that the projection asks for."""
    together = keyed.repartition(F.col(KEY))
    if projection.order == model.BY_POSITION:
        return together.sortWithinPartitions(KEY, "position")
    lamport = F.get_json_object("meta", "$.lamport").cast("bigint")
    return together.sortWithinPartitions(F.col(KEY), lamport, F.col("id"), F.col("link"))


def keyed_events(batches: Batches, projection: Any, catalog: Catalog) -> Iterator[tuple[str, Event]]:
    """The events with their keys, upcast; a key that is no text is refused with the event's name."""
    for batch in batches:
        keys = batch.column(batch.schema.get_field_index(KEY)).to_pylist()
        events = catalog.upcast(list(columns.to_events(batch)))
        for key, event in zip(keys, events, strict=True):
            if key is None or len(key) > KEY_CHARACTERS_MAX:
                model.key_of(projection, event)
                raise errors.JobFailed(reason=f"no key was found for seq {event.seq} of {event.stream!r}")
            yield key, event


def _folding(projection: Any, catalog: Catalog) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        with told():
            rows: list[tuple[str, bytes, bytes]] = []
            for row in _rows(keyed_events(batches, projection, catalog), projection):
                rows.append(row)
                if len(rows) >= ROWS_A_BATCH:
                    yield _batch(rows)
                    rows.clear()
            if rows:
                yield _batch(rows)

    return run


def _batch(rows: list[tuple[str, bytes, bytes]]) -> pa.RecordBatch:
    arrays = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), ROWS_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS_SCHEMA)


def _rows(events: Iterator[tuple[str, Event]], projection: Any) -> Iterator[tuple[str, bytes, bytes]]:
    """The row of each key, once its last event has passed."""
    current: str | None = None
    state: Any = None
    last: Event | None = None
    for key, event in events:
        if key != current:
            if current is not None and last is not None:
                yield _row(projection, current, state, last)
            current, state = key, projection.initial()
        state = applied(projection, state, event)
        last = event
    if current is not None and last is not None:
        yield _row(projection, current, state, last)


def applied(projection: Any, state: Any, event: Event) -> Any:
    """The state after an event; what the projection raises is told with the event's name."""
    try:
        return projection.apply(state, event)
    except errors.TallyError:
        raise
    except Exception as problem:
        raise failed(projection, event, f"{type(problem).__name__}: {problem}") from problem


def failed(projection: Any, event: Event, reason: str) -> errors.TallyError:
    """What a projection or a reducer did not get over, and where."""
    if isinstance(projection, Reducer):
        return errors.ReducerFailed(name=projection.name, stream=event.stream, seq=event.seq, reason=reason)
    return errors.ProjectionFailed(
        name=projection.name, stream=event.stream, seq=event.seq, position=event.position, reason=reason
    )


def _row(projection: Any, key: str, state: Any, last: Event) -> tuple[str, bytes, bytes]:
    try:
        body = canonical.encode_state(state)
    except errors.InvalidInput as problem:
        raise failed(projection, last, problem.message) from problem
    if projection.order == model.BY_POSITION:
        return key, body, b""
    mark = projection.mark(last)
    if mark is None:
        raise failed(projection, last, "it has no lamport in its meta")
    return key, body, mark
