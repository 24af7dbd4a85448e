"""Checking the events of one piece of a log in order, in one task: payloads, sequences and links.

    event → follows the one before it in its stream, and its payload fits: nothing is kept
          → otherwise: a row, which Spark compares with the rows of other pieces and with control facts

Where a stream enters a piece, the event before is unknown. So each stream leaves one edge per piece: its first event,
and where it ended. Spark joins the edges of a stream, which are few; no event goes through a shuffle.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

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
    """The last event of a stream so far, and the row of its first one."""

    seq: int
    link: bytes | None
    position: int
    first: Found


class _Neighbours(NamedTuple):
    """For each event of a batch: whether its payload fits, the event before it in its stream, and whether it follows.

    `before` is -1 if the batch has no earlier event of the stream. `last` are the last events of each stream.
    """

    fits: np.ndarray
    before: np.ndarray
    follows: np.ndarray
    last: np.ndarray


class ChainChecker:
    """Checks the events of a piece, stream by stream."""

    def __init__(self) -> None:
        self._last: dict[bytes, _StreamEnd] = {}
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
        found = _neighbours(batch, streams)
        suspicious = np.flatnonzero(~(found.fits & found.follows) | is_signed | is_other)
        numbers = np.union1d(np.union1d(suspicious, found.before[suspicious]), found.last)
        numbers = numbers[numbers >= 0]
        found_rows = map(_Row._make, to_rows(batch.take(pa.array(numbers)), _Row._fields))
        rows = dict(zip(numbers.tolist(), found_rows, strict=True))
        for at in suspicious.tolist():
            before = int(found.before[at])
            its = bool(is_signed[at] or is_feed[at]), bool(found.fits[at])
            yield from self._check_one(rows[at], rows[before] if before >= 0 else None, *its)
        for at in found.last.tolist():
            row = rows[at]
            known = self._last[row.stream]
            if (known.position, known.seq, known.link) != (row.position, row.seq, row.link):
                self._last[row.stream] = _StreamEnd(row.seq, row.link, row.position, known.first)

    def _check_one(self, row: _Row, before: _Row | None, is_signed: bool, fits: bool) -> Iterator[Found]:
        """The rows for one event, which comes after `before` in its batch, or after an event of an earlier batch."""
        if not fits:
            yield _row_at(SUSPECT, row) | {"checksum": row.checksum, "gone": row.payload is None}
        if row.stream.startswith(_CONTROL):
            yield _row_at(FACT, row) | {"type": row.type, "payload": row.payload}
        rest = _rest(row)
        if before is not None:
            last = _StreamEnd(before.seq, before.link, before.position, {})
        elif row.stream in self._last:
            last = self._last[row.stream]
        else:
            self._last[row.stream] = _StreamEnd(row.seq, row.link, row.position, _chained(EDGE, row, rest))
            return
        if is_signed or not _follows(last, row, rest):
            yield _chained(BREAK, row, rest) | {
                "seq_before": last.seq,
                "link_before": last.link,
                "position_before": last.position,
            }

    def close(self) -> Iterator[Found]:
        """The edges, and the number of events."""
        for last in self._last.values():
            yield last.first | {"last_seq": last.seq, "last_link": last.link, "last_position": last.position}
        yield {"kind": COUNT, "events": self._events, "signed": self._signed, "community": self._community}


def _kinds(streams: pa.DictionaryArray) -> tuple[np.ndarray, np.ndarray]:
    """Which events are in feeds of a community; and which are in feeds, or are control facts."""
    its = [stream.decode(errors="replace") for stream in streams.dictionary.to_pylist()]
    feeds = np.array([names.is_feed(stream) for stream in its], bool)
    control = np.array([stream.startswith(CONTROL) for stream in its], bool)
    of = streams.indices.to_numpy()
    return feeds[of], (feeds | control)[of]


def _neighbours(batch: pa.RecordBatch, streams: pa.DictionaryArray) -> _Neighbours:
    count, of = batch.num_rows, streams.indices.to_numpy()
    order = np.argsort(of, kind="stable")
    is_next = of[order[1:]] == of[order[:-1]]
    before = np.full(count, -1)
    before[order[1:][is_next]] = order[:-1][is_next]
    last = order[np.append(~is_next, True)]
    fits = column_hashes.hash_to(column_hashes.column(batch, "payload"), column_hashes.column(batch, "checksum"))
    return _Neighbours(fits, before, _following(batch, before), last)


def _following(batch: pa.RecordBatch, before: np.ndarray) -> np.ndarray:
    """Whether each event follows the one before it in the batch; false if a part of either is missing."""
    found, later = np.zeros(len(before), bool), np.flatnonzero(before >= 0)
    if any(column_hashes.column(batch, name).null_count for name in _LINKED):
        return found
    seqs, positions = (column_hashes.column(batch, name).to_numpy() for name in ("seq", "position"))
    is_next = (seqs[later] == seqs[before[later]] + 1) & (positions[later] > positions[before[later]])
    later = later[is_next]
    links = column_hashes.column(batch, "link").take(pa.array(before[later]))
    found[later] = column_hashes.links_follow(batch.take(pa.array(later)), links)
    return found


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
    if rest is None or before.link is None or row.seq != before.seq + 1 or row.position <= before.position:
        return False
    return sha256(_BEGIN + hexlify(before.link) + rest).digest() == row.link


def _row_at(kind: str, row: _Row) -> Found:
    return {"kind": kind, "position": row.position, "stream": row.stream, "seq": row.seq}


def _chained(kind: str, row: _Row, rest: bytes | None) -> Found:
    return _row_at(kind, row) | {"link": row.link, "signature": row.signature, "rest": rest}


def problem_row(problem: Problem) -> Found:
    """A row for a problem that needs no further look."""
    place = {"position": problem.position, "stream": problem.stream, "seq": problem.seq}
    return {"kind": PROBLEM, "what": problem.what, "reason": problem.reason} | place


def batches(found: Iterator[Found]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of `SCHEMA`."""
    rows: list[Found] = []
    for item in found:
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
