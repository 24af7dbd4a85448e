"""Checking the events of one piece of a log in order, in one task: payloads, sequences and links.

    event → follows the one before it in its stream, and its payload fits: nothing is kept
          → otherwise: a row, which Spark compares with the rows of other pieces and with control facts

Where a stream enters a piece, the event before is unknown. So each stream leaves one edge per piece: its first event,
and where it ended. Spark joins the edges of a stream, which are few; no event goes through a shuffle. An edge that has
seq 1 and follows from nothing `begins` a stream: its link is checked here, and only its neighbours are left to Spark.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallystick.event import chain, names
from tallystick.pipeline.fold.pieces import CONTROL
from tallystick.pipeline.source import column_hashes
from tallystick.pipeline.source.columns import to_rows
from tallystick.store.events import Problem

EDGE, BREAK, SUSPECT, FACT = "edge", "break", "suspect", "fact"
PROBLEM, COUNT, READABLE = "problem", "count", "readable"
_FIELDS = {
    "kind": pa.string(),
    "position": pa.int64(),
    "stream": pa.string(),
    "seq": pa.int64(),
    "link": pa.binary(),
    "signature": pa.binary(),
    "rest": pa.string(),
    "seq_before": pa.int64(),
    "link_before": pa.binary(),
    "position_before": pa.int64(),
    "begins": pa.bool_(),
    "last_seq": pa.int64(),
    "last_link": pa.binary(),
    "last_position": pa.int64(),
    "type": pa.string(),
    "payload": pa.string(),
    "checksum": pa.binary(),
    "gone": pa.bool_(),
    "what": pa.string(),
    "reason": pa.string(),
    "events": pa.int64(),
    "signed": pa.int64(),
    "community": pa.int64(),
}
_SPARK = {"string": "string", "int64": "bigint", "binary": "binary", "bool": "boolean"}
SCHEMA = pa.schema(list(_FIELDS.items()))
DDL = ", ".join(f"{name} {_SPARK[str(kind)]}" for name, kind in _FIELDS.items())

_CONTROL = CONTROL.encode()
_BEGIN = chain.DOMAIN.encode() + b"\n"
_FIRST = pa.scalar(_BEGIN + hexlify(chain.GENESIS))
_NOTHING = pa.scalar(b"")
_ROWS_A_BATCH = 2000
_AT_A_TIME = 2000  # rows: few enough for a core's cache

Found = dict[str, Any]


class _Row(NamedTuple):
    """An event of a batch. Its texts are bytes, and any value may be missing or damaged."""

    position: int
    stream: bytes
    seq: int
    type: Any
    version: Any
    id: Any
    time: Any
    meta: Any
    checksum: Any
    link: bytes | None
    payload: Any
    signature: Any


_LINKED = tuple(name for name in _Row._fields if name not in ("payload", "signature"))


class _StreamEnd(NamedTuple):
    """The last event of a stream so far."""

    seq: int | None
    link: bytes | None
    position: int | None


_LAST = ("stream", *_StreamEnd._fields)


class _Neighbours(NamedTuple):
    """For each event of a batch: the event before it in its stream, and whether it is the first one of the piece.

    `before` is -1 if the batch has no earlier event of the stream. `last` are the last events of each stream.
    """

    before: np.ndarray
    is_edge: np.ndarray
    last: np.ndarray


class ChainChecker:
    """Checks the events of a piece, stream by stream."""

    def __init__(self) -> None:
        self._last: dict[bytes, _StreamEnd] = {}
        self._edges: list[pa.RecordBatch] = []  # their rows are in the order of the keys of `_last`
        self._events = self._signed = self._community = 0

    def take(self, batch: pa.RecordBatch) -> Iterator[Found]:
        """Check the next events; yields the rows that others must look at."""
        for begin in range(0, batch.num_rows, _AT_A_TIME):
            yield from self._take(_as_bytes(batch.slice(begin, _AT_A_TIME)))

    def _take(self, batch: pa.RecordBatch) -> Iterator[Found]:
        """Most events follow the one before them, and need no row. The others are checked one by one."""
        self._events += batch.num_rows
        streams = column_hashes.column(batch, "stream").dictionary_encode()
        is_feed, is_other = _kinds(streams)
        is_signed = column_hashes.column(batch, "signature").is_valid().to_numpy(zero_copy_only=False)
        self._signed += int(is_signed.sum())
        self._community += int(is_feed.sum())
        found = self._neighbours(streams)
        fits = column_hashes.hash_to(column_hashes.column(batch, "payload"), column_hashes.column(batch, "checksum"))
        follows = found.is_edge | self._following(batch, found)
        for at, row, before in _chosen(batch, np.flatnonzero(~(fits & follows) | is_signed | is_other), found.before):
            yield from _payload_rows(row, fits=bool(fits[at]))
            if not found.is_edge[at]:
                last = _end(before) if before is not None else self._last[row.stream]
                yield from _chain_rows(row, last, is_signed=bool(is_signed[at] or is_feed[at]))
        edges = np.flatnonzero(found.is_edge)
        if len(edges):
            events = batch.select([*_LINKED, "signature"]).take(pa.array(edges))
            self._edges.append(_edges(events, ~(is_signed | is_feed)[edges]))
        last = batch.select(_LAST).take(pa.array(found.last))
        ends = map(_StreamEnd._make, to_rows(last, _StreamEnd._fields))
        self._last.update(zip(last.column("stream").to_pylist(), ends, strict=True))

    def _neighbours(self, streams: pa.DictionaryArray) -> _Neighbours:
        of = streams.indices.to_numpy()
        order = np.argsort(of, kind="stable")
        is_next = of[order[1:]] == of[order[:-1]]
        before = np.full(len(of), -1)
        before[order[1:][is_next]] = order[:-1][is_next]
        is_new = np.array([stream not in self._last for stream in streams.dictionary.to_pylist()], bool)
        return _Neighbours(before, (before < 0) & is_new[of], order[np.append(~is_next, True)])

    def _following(self, batch: pa.RecordBatch, neighbours: _Neighbours) -> np.ndarray:
        """Whether each event follows the one before it, in this or an earlier batch; false if a part is missing."""
        before = neighbours.before
        found = np.zeros(len(before), bool)
        if any(column_hashes.column(batch, name).null_count for name in _LINKED):
            return found
        linked, later = batch.select(_LINKED), np.flatnonzero(before >= 0)
        found[later] = _follow(linked, later, linked.select(_StreamEnd._fields).take(pa.array(before[later])))
        entering = np.flatnonzero((before < 0) & ~neighbours.is_edge)
        if len(entering):
            ends = [self._last[stream] for stream in linked.column("stream").take(pa.array(entering)).to_pylist()]
            is_whole = np.array([None not in end for end in ends], bool)
            whole = [end for end in ends if None not in end]
            found[entering[is_whole]] = _follow(linked, entering[is_whole], _batch_of_ends(whole))
        return found

    def close(self) -> Iterator[Found | pa.RecordBatch]:
        """The edges, in batches of `SCHEMA`; and a row with the number of events."""
        ends = iter(self._last.values())
        for edges in self._edges:
            last = _batch_of_ends([end for _, end in zip(range(edges.num_rows), ends, strict=False)])
            yield _filled(edges, {f"last_{name}": last.column(name) for name in _StreamEnd._fields})
        assert next(ends, None) is None, "every stream has an edge"
        yield {"kind": COUNT, "events": self._events, "signed": self._signed, "community": self._community}


def _kinds(streams: pa.DictionaryArray) -> tuple[np.ndarray, np.ndarray]:
    """Which events are in feeds of a community; and which are in feeds, or are control facts."""
    its = [stream.decode(errors="replace") for stream in streams.dictionary.to_pylist()]
    feeds = np.array([names.is_feed(stream) for stream in its], bool)
    control = np.array([stream.startswith(CONTROL) for stream in its], bool)
    of = streams.indices.to_numpy()
    return feeds[of], (feeds | control)[of]


def _chosen(batch: pa.RecordBatch, numbers: np.ndarray, before: np.ndarray) -> Iterator[tuple[int, _Row, _Row | None]]:
    """The events with these numbers, each with the event before it in its stream, if the batch has one."""
    if not len(numbers):
        return
    needed = np.union1d(numbers, before[numbers])
    needed = needed[needed >= 0]
    rows = dict(zip(needed.tolist(), map(_Row._make, to_rows(batch.take(pa.array(needed)), _Row._fields)), strict=True))
    for at in numbers.tolist():
        yield at, rows[at], rows.get(int(before[at]))


def _payload_rows(row: _Row, *, fits: bool) -> Iterator[Found]:
    if not fits:
        yield _row_at(SUSPECT, row) | {"checksum": row.checksum, "gone": row.payload is None}
    if row.stream.startswith(_CONTROL):
        yield _row_at(FACT, row) | {"type": row.type, "payload": row.payload}


def _chain_rows(row: _Row, last: _StreamEnd, *, is_signed: bool) -> Iterator[Found]:
    """The row for an event that is signed, or does not follow the one before it."""
    rest = _rest(row)
    if is_signed or not _follows(last, row, rest):
        yield _row_at(BREAK, row) | {
            "link": row.link,
            "signature": row.signature,
            "rest": rest,
            "seq_before": last.seq,
            "link_before": last.link,
            "position_before": last.position,
        }


def _end(row: _Row) -> _StreamEnd:
    return _StreamEnd(row.seq, row.link, row.position)


def _batch_of_ends(ends: Sequence[_StreamEnd]) -> pa.RecordBatch:
    values = zip(*ends, strict=True) if ends else ((), (), ())
    arrays = [pa.array(column, _FIELDS[name]) for name, column in zip(_StreamEnd._fields, values, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, list(_StreamEnd._fields))


def _follow(batch: pa.RecordBatch, numbers: np.ndarray, before: pa.RecordBatch) -> np.ndarray:
    """Whether the events with these numbers follow the events `before`; neither has nulls."""
    found, events = np.zeros(len(numbers), bool), batch.take(pa.array(numbers))
    seqs, positions = (column_hashes.column(events, name).to_numpy() for name in ("seq", "position"))
    is_next = (seqs == before.column("seq").to_numpy() + 1) & (positions > before.column("position").to_numpy())
    later = np.flatnonzero(is_next)
    if len(later):
        links = before.column("link").take(pa.array(later))
        found[later] = column_hashes.links_follow(events.take(pa.array(later)), links)
    return found


def _edges(events: pa.RecordBatch, may_begin: np.ndarray) -> pa.RecordBatch:
    """The rows for the first events of streams in a piece. The text of a link that was checked is left out."""
    rests = column_hashes.rests(events)
    seqs, positions = (column_hashes.column(events, name) for name in ("seq", "position"))
    is_first = pc.fill_null(pc.and_(pc.equal(seqs, 1), pc.greater(positions, 0)), False)
    firsts = np.flatnonzero(np.asarray(is_first.to_numpy(zero_copy_only=False), bool) & may_begin)
    begins = np.zeros(len(events), bool)
    if len(firsts):
        chosen = pa.array(firsts)
        texts = pc.binary_join_element_wise(_FIRST, rests.take(chosen), _NOTHING)
        begins[firsts] = column_hashes.hash_to(texts, column_hashes.column(events, "link").take(chosen))
    own = {name: events.column(name) for name in ("position", "stream", "seq", "link", "signature")}
    kind = pa.array([EDGE] * len(events), pa.string())
    rest = pc.if_else(pa.array(begins), pa.scalar(None, pa.binary()), rests)
    return _filled(None, own | {"kind": kind, "rest": rest, "begins": pa.array(begins)})


def _filled(rows: pa.RecordBatch | None, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """Rows with other values in some columns; columns that are not given are null."""
    count = len(next(iter(columns.values())))
    arrays = []
    for field in SCHEMA:
        if field.name in columns:
            its = columns[field.name]
            arrays.append(its.view(field.type) if its.type != field.type else its)
        else:
            arrays.append(rows.column(field.name) if rows is not None else pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _as_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with texts as bytes: a damaged text may not be UTF-8, and must be hashed as it is."""
    arrays = [column.view(pa.binary()) if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _rest(row: _Row) -> bytes | None:
    """The part of the hashed text of a link after the previous link; None if a value is missing."""
    try:
        ids = row.stream, row.seq, row.type, row.version, hexlify(row.id)
        return b"\n%b\n%d\n%b\n%d\n%b\n%d\n%b\n%b" % (*ids, row.time, row.meta, hexlify(row.checksum))
    except TypeError:
        return None


def _follows(before: _StreamEnd, row: _Row, rest: bytes | None) -> bool:
    """Whether an event follows the one before it."""
    if rest is None or before.seq is None or before.link is None or before.position is None:
        return False
    if row.seq != before.seq + 1 or row.position <= before.position:
        return False
    return sha256(_BEGIN + hexlify(before.link) + rest).digest() == row.link


def _row_at(kind: str, row: _Row) -> Found:
    return {"kind": kind, "position": row.position, "stream": row.stream, "seq": row.seq}


def edge_rows(edges: pa.RecordBatch) -> list[Found]:
    """Edges as rows; their texts are bytes."""
    rows: list[Found] = _as_bytes(edges.drop_columns("kind")).to_pylist()
    return [row | {"kind": EDGE} for row in rows]


def problem_row(problem: Problem) -> Found:
    """A row for a problem that needs no further look."""
    place = {"position": problem.position, "stream": problem.stream, "seq": problem.seq}
    return {"kind": PROBLEM, "what": problem.what, "reason": problem.reason} | place


def batches(found: Iterator[Found | pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of `SCHEMA`. Batches among them are passed on."""
    rows: list[Found] = []
    for item in found:
        if isinstance(item, pa.RecordBatch):
            yield item
            continue
        rows.append(item)
        if len(rows) >= _ROWS_A_BATCH:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


def _batch(rows: list[Found]) -> pa.RecordBatch:
    used = set().union(*rows)  # most kinds of rows leave most columns empty
    arrays = [_array(rows, field) if field.name in used else pa.nulls(len(rows), field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _array(rows: list[Found], field: pa.Field) -> pa.Array:
    values = [row.get(field.name) for row in rows]
    if not pa.types.is_string(field.type):
        return pa.array(values, field.type)
    return pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.binary()).view(
        pa.string()
    )
