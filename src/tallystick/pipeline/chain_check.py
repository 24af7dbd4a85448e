"""The events of one piece of a log, checked in order by one task: payloads, sequences and links.

    event → follows the one before it in its stream, and has its payload: nothing is kept of it
          → does not: a row, for Spark to look at beside everything else

Where a stream enters a piece, nothing is known of what was before. So each stream leaves one edge there: its first
event, and where it ended. Spark joins the edges of a stream, which are few, and no event goes through a shuffle.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import pyarrow as pa

from tallystick.event import chain, names
from tallystick.pipeline.columns import to_rows
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
_ASKED = (
    "position",
    "stream",
    "seq",
    "type",
    "version",
    "id",
    "time",
    "meta",
    "checksum",
    "link",
    "payload",
    "signature",
)
_CONTROL, _FEEDS = b"tally.", names.FEEDS.encode()
_BEGIN = chain.DOMAIN.encode() + b"\n"
_ROWS_A_BATCH = 2000
_AT_A_TIME = 2000  # rows of Python's own: near a core

Found = dict[str, Any]


class _Last(NamedTuple):
    """Where a stream is, of the events so far; with the first of them."""

    seq: int
    link: bytes | None
    position: int
    first: Found


class Pieces:
    """The streams of a piece, as its events pass by."""

    def __init__(self) -> None:
        self._last: dict[bytes, _Last] = {}
        self._events = self._signed = self._community = 0

    def take(self, batch: pa.RecordBatch) -> Iterator[Found]:
        """Check the next events; what is to be said of them."""
        for begin in range(0, batch.num_rows, _AT_A_TIME):
            yield from self._take(_as_bytes(batch.slice(begin, _AT_A_TIME)))

    def _take(self, batch: pa.RecordBatch) -> Iterator[Found]:
        self._events += batch.num_rows
        self._signed += batch.num_rows - batch.column(batch.schema.get_field_index("signature")).null_count
        last = self._last
        for row in to_rows(batch, _ASKED):
            position, stream, seq, _, _, _, _, _, checksum, link, payload, signature = row
            if payload is None or sha256(payload).digest() != checksum:
                yield _about(SUSPECT, row) | {"checksum": checksum, "gone": payload is None}
            if stream[:6] == _CONTROL:
                yield _about(FACT, row) | {"type": row[3], "payload": payload}
            rest = _rest(row)
            is_signed = signature is not None
            if stream.startswith(_FEEDS) and names.is_feed(stream.decode(errors="replace")):
                self._community += 1
                is_signed = True
            before = last.get(stream)
            if before is None:
                last[stream] = _Last(seq, link, position, _chained(EDGE, row, rest))
                continue
            last[stream] = _Last(seq, link, position, before.first)
            if is_signed or not _follows(before, position, seq, link, rest):
                yield _chained(BREAK, row, rest) | {
                    "seq_before": before.seq,
                    "link_before": before.link,
                    "position_before": before.position,
                }

    def close(self) -> Iterator[Found]:
        """The edges, and how many events there were."""
        for last in self._last.values():
            yield last.first | {"last_seq": last.seq, "last_link": last.link, "last_position": last.position}
        yield {"kind": COUNT, "events": self._events, "signed": self._signed, "community": self._community}


def _as_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Texts as bytes: a text that is damaged is not UTF-8, and still has to be hashed as it is."""
    arrays = [column.view(pa.binary()) if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _rest(row: Sequence[Any]) -> bytes | None:
    """The text that a link hashes, behind the link before; None if any part is missing."""
    _, stream, seq, type_, version, id_, time, meta, checksum, _, _, _ = row
    try:
        parts = (stream, seq, type_, version, hexlify(id_), time, meta, hexlify(checksum))
        return b"\n%b\n%d\n%b\n%d\n%b\n%d\n%b\n%b" % parts
    except TypeError:
        return None


def _follows(before: _Last, position: int, seq: int, link: bytes | None, rest: bytes | None) -> bool:
    """Whether an event simply follows the one before it."""
    if rest is None or before.link is None or seq != before.seq + 1 or position <= before.position:
        return False
    return sha256(_BEGIN + hexlify(before.link) + rest).digest() == link


def _about(kind: str, row: Sequence[Any]) -> Found:
    return {"kind": kind, "position": row[0], "stream": row[1], "seq": row[2]}


def _chained(kind: str, row: Sequence[Any], rest: bytes | None) -> Found:
    return _about(kind, row) | {"link": row[9], "signature": row[11], "rest": rest}


def of_problem(problem: Problem) -> Found:
    """A finding that is complete as it is."""
    place = {"position": problem.position, "stream": problem.stream, "seq": problem.seq}
    return {"kind": PROBLEM, "what": problem.what, "reason": problem.reason} | place


def batches(found: Iterator[Found]) -> Iterator[pa.RecordBatch]:
    """What was found as rows of `SCHEMA`."""
    rows: list[Found] = []
    for item in found:
        rows.append(item)
        if len(rows) >= _ROWS_A_BATCH:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


def _batch(rows: list[Found]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_array(rows, field) for field in SCHEMA], schema=SCHEMA)


def _array(rows: list[Found], field: pa.Field) -> pa.Array:
    values = [row.get(field.name) for row in rows]
    if not pa.types.is_string(field.type):
        return pa.array(values, field.type)
    return pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.binary()).view(
        pa.string()
    )
