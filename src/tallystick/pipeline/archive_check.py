"""A bucket of an archive held against its manifest and against the live log; a task of `verify` each.

Nothing is raised for what is wrong: every finding is returned, so that one file does not hide the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tallystick import errors
from tallystick.event import chain
from tallystick.pipeline import shelving
from tallystick.pipeline.archive_files import wrong_blocks, wrong_form
from tallystick.pipeline.columns import to_rows
from tallystick.pipeline.manifest import BLOCK_POSITIONS, Bucket, DataFile
from tallystick.pipeline.partitions import Range
from tallystick.pipeline.question import Question, open_asked
from tallystick.pipeline.source import read_range
from tallystick.store.events import Problem
from tallystick.store.store import Store

PROBLEMS_MAX = 1000
_LIVE = ("position", "stream", "seq", "link", "payload", "checksum")


class Checked(msgspec.Struct, frozen=True):
    """What was found in a bucket, and which of its files can be read."""

    problems: list[Problem]
    readable: list[str]


class _Rows(msgspec.Struct, frozen=True):
    """What a file holds of each event, in the order of the file."""

    positions: list[int]
    streams: list[str]
    seqs: list[int]
    links: list[bytes | None]


def check(question: Question, place: str, bucket: Bucket) -> Checked:
    """Everything that is wrong with a bucket; runs in a worker."""
    problems: list[Problem] = []
    readable: list[str] = []
    for file in (bucket.events, bucket.heads):
        if file is not None:
            problems += [Problem("archive", reason, bucket.first) for reason in _wrong_file(place, file, readable)]
    rows = _Rows([], [], [], [])
    if bucket.events is not None:
        if bucket.events.name not in readable:
            return Checked(problems, readable)
        rows = _rows(Path(place) / bucket.events.name)
    problems += _against_manifest(bucket, rows)
    problems += _against_log(question, bucket, rows)
    return Checked(problems[:PROBLEMS_MAX], readable)


def _wrong_file(place: str, file: DataFile, readable: list[str]) -> Iterator[str]:
    """Why a file is not the one that the manifest names; it is noted where it can be read all the same."""
    path = Path(place) / file.name
    try:
        if shelving.hash_of(path) != file.sha256:
            yield f"{path.name} is not the file that the manifest names"
        if (rows := pq.read_table(path, columns=[]).num_rows) != file.rows:
            yield f"{path.name} has {rows} rows, not {file.rows}"
        pq.read_table(path, use_threads=False)  # every page of it
        if file.name.startswith(shelving.EVENTS):
            if (reason := wrong_form(pq.read_schema(path))) is not None:
                yield f"{path.name} {reason}"
                return
            yield from _wrong_statistics(path)
        readable.append(file.name)
    except FileNotFoundError:
        yield f"{path.name} is missing"
    except (OSError, ValueError, pa.ArrowException) as problem:
        yield f"{path.name} cannot be read: {str(problem).partition(chr(10))[0]}"


def _wrong_statistics(path: Path) -> Iterator[str]:
    """What a file says of its own positions that is not so: other tools go by it."""
    with pq.ParquetFile(path) as file:
        at = file.metadata.schema.names.index("position")
        for number in range(file.num_row_groups):
            told = file.metadata.row_group(number).column(at).statistics
            found = pc.min_max(file.read_row_group(number, columns=["position"])["position"]).as_py()
            if told is not None and told.has_min_max and (told.min, told.max) != (found["min"], found["max"]):
                yield f"{path.name} has statistics that are not those of its rows"


def _rows(path: Path) -> _Rows:
    table = pq.read_table(path, columns=["position", "stream", "seq", "link"])
    return _Rows(*(table[name].to_pylist() for name in ("position", "stream", "seq", "link")))


def _against_manifest(bucket: Bucket, rows: _Rows) -> Iterator[Problem]:
    """The order of rows, their bounds, and which event stands at which position."""
    positions = np.array(rows.positions, np.int64)
    is_ordered = bool(np.all(positions[1:] > positions[:-1]))
    if len(positions) and not (is_ordered and bucket.first <= positions[0] and positions[-1] <= bucket.last):
        reason = f"the rows from position {bucket.first} on do not ascend within their bucket"
        yield Problem("archive", reason, bucket.first)
    for block in wrong_blocks(rows.positions, rows.links, bucket.blocks):
        first = max(bucket.first, block.number * BLOCK_POSITIONS + 1)
        reason = f"positions from {first} on do not hold the {block.rows} rows that were archived"
        yield Problem("block", reason, first)


def _against_log(question: Question, bucket: Bucket, rows: _Rows) -> Iterator[Problem]:
    """What the live log still has of the bucket, and what it lacks although nobody pruned it."""
    at = {position: index for index, position in enumerate(rows.positions)}
    seen: set[int] = set()
    try:
        for batch in read_range(question, _LIVE, Range(bucket.first - 1, bucket.last)):
            for position, stream, seq, link, payload, checksum in to_rows(batch, _LIVE):
                seen.add(position)
                if payload is not None and chain.checksum(payload) != checksum:
                    reason = "in the live log the payload does not have its checksum"
                    yield Problem("checksum", reason, position, stream, seq)
                index = at.get(position)
                if index is None:
                    yield Problem("archive", "the live log has this event, the archive does not", position, stream, seq)
                elif rows.links[index] != link:
                    yield Problem("archive", "the archive has another event here", position, stream, seq)
        with open_asked(question) as store:
            yield from _lost(store, rows, seen)
    except errors.TallyError as problem:
        reason = f"the live log cannot be read from position {bucket.first} on: {problem.message}"
        yield Problem("log", reason, bucket.first)


def _lost(store: Store, rows: _Rows, seen: set[int]) -> Iterator[Problem]:
    """Archived events that the log does not have any more, and that are in front of no cut or hole."""
    cuts: dict[str, int] = {}
    holes = [(hole.first, hole.last) for hole in store.log.holes()]
    for position, stream, seq in zip(rows.positions, rows.streams, rows.seqs, strict=True):
        if position in seen or any(first <= position <= last for first, last in holes):
            continue
        if stream not in cuts:
            cut = store.cut(stream)
            cuts[stream] = cut.through if cut is not None else 0
        if seq > cuts[stream]:
            yield Problem("archive", "the archive has this event, the live log does not", position, stream, seq)
