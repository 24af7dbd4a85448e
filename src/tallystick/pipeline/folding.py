"""Folding on Spark: the events of a key come to one task, in order, and Python holds a few events and one state.

    repartition(key) → sortWithinPartitions(place) → mapInArrow

A place is one number: as many bits of the key's hash as there is room for, and behind them the position. One number is
sorted for less than a key and a number. Keys whose bits are the same take turns, so their states are held together: all
others are one after the other. The sort spills to disk in the JVM, so a key with more events than memory is folded all
the same. Where events have another order than their positions, they are sorted by their keys and that order.
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
from tallystick.pipeline.keys import key_name, with_key
from tallystick.projections import model
from tallystick.state.reducer import Reducer
from tallystick.store.views import KEY_CHARACTERS_MAX

ROWS_DDL = "key string, state binary, mark binary"
ROWS_SCHEMA = pa.schema([("key", pa.string()), ("state", pa.binary()), ("mark", pa.binary())])
ROWS_A_BATCH = 10_000
_HASH = "hash_of_key"
_PLACE_BITS = 63

Batches = Iterator[pa.RecordBatch]
Keyed = tuple[list[str], list[Any], list[Event]]


def fold(events: DataFrame, projection: Any, catalog: Catalog, *, until: int) -> DataFrame:
    """(key, state, mark): the rows of a projection over these events, which are those of its types up to `until`."""
    keyed = with_key(events, projection, catalog)
    if projection.order != model.BY_POSITION:
        return in_order(keyed, projection).mapInArrow(_folding(projection, catalog), ROWS_DDL)
    bits = until.bit_length()
    return _by_place(keyed, projection, bits).mapInArrow(_folding(projection, catalog, bits), ROWS_DDL)


def _by_place(keyed: DataFrame, projection: Any, bits: int) -> DataFrame:
    """The events of each key together, by position; `position` holds their places."""
    key = F.col(key_name(projection))
    hashed = F.xxhash64(key).bitwiseAND((1 << (_PLACE_BITS - bits)) - 1)
    placed = keyed.withColumn("position", F.shiftleft(hashed, bits).bitwiseOR(F.col("position")))
    return placed.repartition(key).sortWithinPartitions("position")


def in_order(keyed: DataFrame, projection: Any) -> DataFrame:
    """The events of each key together, in the order that the projection asks for."""
    key = F.col(key_name(projection))
    together = keyed.withColumn(_HASH, F.xxhash64(key)).repartition(F.col(_HASH))
    if projection.order == model.BY_POSITION:
        order = [F.col("position")]
    else:
        order = [F.get_json_object("meta", "$.lamport").cast("bigint"), F.col("id"), F.col("link")]
    return together.sortWithinPartitions(F.col(_HASH), key, *order).drop(_HASH)


def _keyed(batches: Batches, projection: Any, catalog: Catalog, bits: int | None = None) -> Iterator[Keyed]:
    """Keys, the bits of their hashes (the keys themselves if events are sorted by them) and events, upcast."""
    name = key_name(projection)
    for batch in batches:
        keys = batch.column(batch.schema.get_field_index(name)).to_numpy(zero_copy_only=False).tolist()
        groups = keys
        if bits is not None:
            at = batch.schema.get_field_index("position")
            places = batch.column(at).to_numpy()
            groups = (places >> bits).tolist()
            batch = batch.set_column(at, "position", pa.array(places & ((1 << bits) - 1)))
        yield keys, groups, catalog.upcast(list(columns.to_events(batch)))


def keyed_events(batches: Batches, projection: Any, catalog: Catalog) -> Iterator[tuple[str, Event]]:
    """The events with their keys, upcast; a key that is no text is refused with the event's name."""
    for keys, _, events in _keyed(batches, projection, catalog):
        for key, event in zip(keys, events, strict=True):
            require_key(projection, key, event)
            yield key, event


def require_key(projection: Any, key: str | None, event: Event) -> None:
    """Refuse what is no key, as the in-process runner does."""
    if key is None or len(key) > KEY_CHARACTERS_MAX:
        model.key_of(projection, event)
        raise errors.JobFailed(reason=f"no key was found for seq {event.seq} of {event.stream!r}")


def _folding(projection: Any, catalog: Catalog, bits: int | None = None) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        with told():
            rows: list[tuple[str, bytes, bytes]] = []
            for row in _rows(_keyed(batches, projection, catalog, bits), projection):
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


def _rows(runs: Iterator[Keyed], projection: Any) -> Iterator[tuple[str, bytes, bytes]]:
    """The row of each key, once the last event of its group has passed. The one loop that every event goes through."""
    current: str | None = None
    group: Any = None
    state: Any = None
    last: Event | None = None
    waiting: dict[str, tuple[Any, Event]] = {}  # the other keys of the group
    apply = projection.apply
    for keys, groups, events in runs:
        for key, at, event in zip(keys, groups, events, strict=True):
            if key != current or current is None:
                require_key(projection, key, event)
                if current is not None and last is not None:
                    waiting[current] = (state, last)
                if at != group:
                    yield from _ended(projection, waiting)
                    waiting.clear()
                    group = at
                current = key
                state = waiting[key][0] if key in waiting else projection.initial()
            try:
                state = apply(state, event)
            except errors.TallyError:
                raise
            except Exception as problem:
                raise failed(projection, event, f"{type(problem).__name__}: {problem}") from problem
            last = event
    if current is not None and last is not None:
        waiting[current] = (state, last)
    yield from _ended(projection, waiting)


def _ended(projection: Any, waiting: dict[str, tuple[Any, Event]]) -> Iterator[tuple[str, bytes, bytes]]:
    return (_row(projection, key, state, last) for key, (state, last) in waiting.items())


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
