"""From payloads to columns, a table at a time: decoded, checked and transposed in C, without a line of Python per row.

If a value in a table has an unexpected form, Python processes the table event by event. It either finds the same
values the slow way, or refuses an event by name. The row `rebuild, a summary: processor time of an event, largest log`
measures the gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallystick.event.model import Event
from tallystick.pipeline.source.columns import SPARK_TYPES
from tallystick.projections.summary import numbers
from tallystick.projections.summary.compiled import attribute, lifter, shape
from tallystick.projections.summary.measures import tag
from tallystick.projections.summary.model import Summary
from tallystick.projections.summary.sql import summary_query
from tallystick.store.summary_sql import ANY, DECIMAL, INTEGER, TEXT, Aggregate
from tallystick.store.views import BY_KIND, BY_PAYLOAD, BY_STREAM, KEY_CHARACTERS_MAX

NEEDED = ("position", "stream", "seq", "type", "time", "payload")
_NONE = type(None)
_KINDS: dict[str, set[type]] = {INTEGER: {int, _NONE}, DECIMAL: {int, float, _NONE}, TEXT: {str, _NONE}}
_TYPES = {INTEGER: "bigint", DECIMAL: "bigint", TEXT: "string", ANY: "string"}
_ARROW = {"bigint": pa.int64(), "string": pa.string()}
_COUNT = ("count({t})",)  # only needs to know whether there is a value

Values = Sequence[Any]


class _UnexpectedForm(Exception):
    """A value does not have the type that its measure takes; the slow way reports which one."""


class PayloadExtractor:
    """Converts tables of events to columns for the measures of a summary."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._asked = summary_query(summary)
        self._in_payload = summary.key.startswith(BY_PAYLOAD)
        paths = ["payload." + ".".join(one.path) for one in self._asked.aggregates if one.path]
        self._paths = list(dict.fromkeys([*paths, summary.key] if self._in_payload else paths))
        is_nested = any(other.startswith(f"{one}.") for one in self._paths for other in self._paths)
        self._decode: Any = None if is_nested else msgspec.json.Decoder(shape(self._paths, filled=True)).decode_lines
        self._getters = [attrgetter(attribute(path)) for path in self._paths]
        self._lift = lifter(self._paths)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The columns, and Spark's names of their types."""
        found = [("position", SPARK_TYPES["position"]), ("key", "string"), ("win", "bigint")]
        for at, one in enumerate(self._asked.aggregates):
            found.append((f"v{at}", _TYPES[one.takes]) if _is_judged(one) else (f"u{at}", _text_type(one)))
        return found

    def batch(self, table: pa.Table) -> pa.RecordBatch:
        """The columns of a table of events."""
        if self._in_payload:
            table = table.filter(table.column("payload").is_valid())
        table = table.combine_chunks()
        try:
            arrays = self._columns(table, self._values(table))
        except (_UnexpectedForm, msgspec.DecodeError, AttributeError, pa.ArrowException):
            arrays = self._columns(table, self._judged(table))
        names = [name for name, _ in self.fields]
        types = [_ARROW[kind] for _, kind in self.fields]
        arrays = [array.cast(kind) if array.type != kind else array for array, kind in zip(arrays, types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names)

    def _values(self, table: pa.Table) -> dict[str, Values]:
        """The values at each path, the fast way."""
        if self._decode is None:
            raise _UnexpectedForm
        payloads = _array(table, "payload").fill_null("{}")
        whole = pa.ListArray.from_arrays(pa.array([0, len(payloads)], pa.int32()), payloads)
        found = self._decode(pc.binary_join(whole, "\n")[0].as_buffer()) if len(payloads) else []
        return {path: list(map(get, found)) for path, get in zip(self._paths, self._getters, strict=True)}

    def _judged(self, table: pa.Table) -> dict[str, Values]:
        """The values at each path, the slow way; raises if a measure refuses an event."""
        events = [_event(*row) for row in zip(*(_array(table, name).to_pylist() for name in NEEDED), strict=True)]
        self._summary.accounts_from(events)
        found = list(zip(*map(self._lift, events), strict=True)) or [()] * len(self._paths)
        return dict(zip(self._paths, map(list, found), strict=True))

    def _columns(self, table: pa.Table, values: dict[str, Values]) -> list[pa.Array]:
        position, time = _array(table, "position"), _array(table, "time")
        window = self._asked.window_ns
        windows = pc.divide(time, window) if window else pa.array(np.zeros(len(position), np.int64))
        measured = (self._measured(table, one, values) for one in self._asked.aggregates)
        return [position, self._keys(table, values), windows, *measured]

    def _keys(self, table: pa.Table, values: dict[str, Values]) -> pa.Array:
        if not self._in_payload:
            streams = _array(table, "stream")
            if self._asked.key == BY_STREAM:
                return streams
            assert self._asked.key == BY_KIND
            return pc.list_element(pc.split_pattern(streams, "/", max_splits=1), 0)
        found = values[self._asked.key]
        if not set(map(type, found)) <= {str}:
            raise _UnexpectedForm
        keys = pa.array(found, pa.string())
        ends = pc.min_max(pc.utf8_length(keys))
        if len(keys) and not 0 < ends["min"].as_py() <= ends["max"].as_py() <= KEY_CHARACTERS_MAX:
            raise _UnexpectedForm
        return keys

    def _measured(self, table: pa.Table, one: Aggregate, values: dict[str, Values]) -> pa.Array:
        """The column of one measure; null where an event has another type."""
        mask = pc.is_in(_array(table, "type"), pa.array(one.of, pa.string())) if one.of else None
        if not one.path:
            found = pa.array(np.ones(table.num_rows, np.int64))
        else:
            its = values["payload." + ".".join(one.path)]
            if not set(map(type, its)) <= _KINDS.get(one.takes, {object}) and one.takes != ANY:
                its = _masked(its, mask)
                if not set(map(type, its)) <= _KINDS[one.takes]:
                    raise _UnexpectedForm
            found = _taken(one, its, mask)
        return found if mask is None else pc.if_else(mask, found, pa.scalar(None, found.type))


def _taken(one: Aggregate, values: Values, mask: pa.Array | None) -> pa.Array:
    """The values as an array of the type that the measure takes."""
    if one.takes == INTEGER:
        return pa.array(values, pa.int64())
    if one.takes == DECIMAL:
        return _scaled(pa.array(_masked(values, mask), pa.float64()), one.places)
    if one.takes == TEXT:
        return pa.array(values, pa.string())
    if one.sql == _COUNT:
        return pa.array([None if value is None else 1 for value in values], pa.int64())
    if set(map(type, values)) <= {str, _NONE}:
        return pc.binary_join_element_wise('"', pa.array(values, pa.string()), "")
    return pa.array([None if value is None else tag(value) for value in values], pa.string())


def _scaled(found: pa.Array, places: int) -> pa.Array:
    """`numbers.scaled` of many values at once: the same divisions by the same doubles."""
    value, unit = found.to_numpy(zero_copy_only=False), 10.0**places
    counted = np.rint(value * unit)
    with np.errstate(invalid="ignore"):
        fits = (counted / unit == value) & (np.abs(counted) < 10.0**numbers.DIGITS_MAX)
    if not np.all(fits | np.isnan(value)):
        raise _UnexpectedForm
    return pa.array(counted, from_pandas=True).cast(pa.int64())


def _masked(values: Values, mask: pa.Array | None) -> Values:
    if mask is None:
        return values
    return [value if is_its else None for value, is_its in zip(values, mask.to_pylist(), strict=True)]


def _is_judged(one: Aggregate) -> bool:
    return one.takes != ANY


def _text_type(one: Aggregate) -> str:
    return "bigint" if one.sql == _COUNT or not one.path else "string"


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _event(position: int, stream: str, seq: int, type_: str, time: int, payload: str | None) -> Event:
    body = None if payload is None else payload.encode()
    return Event(position, stream, seq, type_, 1, b"", time, body, b"{}", b"", b"")
