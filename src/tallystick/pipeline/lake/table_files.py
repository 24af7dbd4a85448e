"""Reading the data files of a table by their names, without trusting what the table or their footers say of them.

What the table and the footers say of positions is compared with the rows, since every engine trusts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tallystick.pipeline.lake.schema import PARTITIONS, SCHEMA
from tallystick.pipeline.lake.table import ListedFile
from tallystick.pipeline.storage.port import Storage
from tallystick.pipeline.verify.bucket_check import wrong_statistics

UNREADABLE = (OSError, ValueError, KeyError, pa.ArrowException)
_SAME = {"large_string": "string", "string_view": "string", "large_binary": "binary", "binary_view": "binary"}


class RowGroup(msgspec.Struct, frozen=True):
    """A row group, with the real bounds of its positions."""

    number: int
    first: int
    last: int


class ReadableFile(msgspec.Struct, frozen=True):
    """A file that can be read, and its row groups."""

    file: ListedFile
    groups: Sequence[RowGroup]


def inside(file: ListedFile) -> ListedFile:
    """The file, if its name does not lead out of the table: the list of files may be forged."""
    if file.name.startswith("/") or ".." in file.name.split("/"):
        raise ValueError("its name leads out of the table")
    return file


def look_at(storage: Storage, file: ListedFile) -> tuple[ReadableFile, list[str]]:
    """Where the rows of a file are, and what the table or the footer says wrongly. Raises one of `UNREADABLE`."""
    with storage.opened(inside(file).name) as path:
        wrong = [] if next(wrong_statistics(path), None) is None else ["its footer has other bounds than its positions"]
        with pq.ParquetFile(path) as opened:
            _require_form(opened.schema_arrow)
            groups, rows, nowhere = [], 0, 0
            for number in range(opened.num_row_groups):
                found = opened.read_row_group(number, columns=["position"], use_threads=False)["position"]
                rows, nowhere = rows + len(found), nowhere + found.null_count
                wrong += _misplaced(file, opened, number)
                bounds = pc.min_max(found).as_py()
                if bounds["min"] is not None:
                    groups.append(RowGroup(number, bounds["min"], bounds["max"]))
    if nowhere:
        wrong.append(f"it has {nowhere} rows without a position")
    return ReadableFile(file, groups), [*wrong, *_misstated(file, rows, groups)]


def _misplaced(file: ListedFile, opened: pq.ParquetFile, number: int) -> Iterator[str]:
    """Partition columns inside a file that differ from the partition in which the table lists the file."""
    listed = {"day": file.day, "bucket": file.bucket}
    names = [name for name in PARTITIONS if name in opened.schema_arrow.names]
    for name in names:
        found = opened.read_row_group(number, columns=[name], use_threads=False)[name].unique().to_pylist()
        if found != [listed[name]]:
            yield f"the table lists it under the {name} {listed[name]}, but it has rows of {found[:3]}"


def _misstated(file: ListedFile, rows: int, groups: Sequence[RowGroup]) -> Iterator[str]:
    """What the table says wrongly of a file. A bound may be missing, but must not exclude a row."""
    if file.rows != rows:
        yield f"the table says that it has {file.rows} rows, but it has {rows}"
    if groups:
        first, last = min(group.first for group in groups), max(group.last for group in groups)
        if (file.first is not None and file.first > first) or (file.last is not None and file.last < last):
            yield f"the table says that it has the positions from {file.first} to {file.last}, not {first} to {last}"


def _require_form(found: pa.Schema) -> None:
    """Refuse a file without the columns of the table. Delta's files do not have the partition columns."""
    for field in SCHEMA:
        at = found.get_field_index(field.name)
        if at < 0 and field.name not in PARTITIONS:
            raise ValueError(f"it has no column {field.name}")
        if at >= 0 and _SAME.get(str(found.field(at).type), str(found.field(at).type)) != str(field.type):
            raise ValueError(f"its column {field.name} is {found.field(at).type}, not {field.type}")


def rows_of(storage: Storage, file: ListedFile) -> pa.Table:
    """All rows of a file."""
    with storage.opened(inside(file).name) as path, pq.ParquetFile(path, pre_buffer=False) as opened:
        return _formed(file, opened.read(use_threads=False))


def rows_between(storage: Storage, known: ReadableFile, first: int, last: int) -> Iterator[pa.Table]:
    """The rows of a file with positions from `first` to `last`."""
    wanted = [group.number for group in known.groups if group.first <= last and group.last >= first]
    if not wanted:
        return
    with storage.opened(inside(known.file).name) as path, pq.ParquetFile(path, pre_buffer=False) as opened:
        for number in wanted:
            rows = _formed(known.file, opened.read_row_group(number, use_threads=False))
            yield rows.filter(pc.and_(pc.greater_equal(rows["position"], first), pc.less_equal(rows["position"], last)))


def _formed(file: ListedFile, rows: pa.Table) -> pa.Table:
    """Rows with all columns and types of the table. The partition is the listed one, as every engine reads it."""
    listed = {"day": file.day, "bucket": file.bucket}
    columns = []
    for field in SCHEMA:
        if field.name in listed:
            columns.append(pa.chunked_array([pa.array([listed[field.name]] * rows.num_rows, field.type)]))
        else:
            columns.append(rows[field.name].cast(field.type, safe=False))
    return pa.table(columns, schema=SCHEMA)
