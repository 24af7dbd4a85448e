"""The rows of a projection as a table: all rows, as of one position of the log, replaced in one commit.

The commit also stores their fingerprint, which is that of the rows in the log. If the rows change while they are read,
they are read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tallystick import errors
from tallystick.pipeline.lake.schema import ROWS
from tallystick.pipeline.lake.table import (
    GuardedRows,
    Table,
    TableMark,
    read_mark,
    remove_old_files,
    require_content,
    require_empty,
    require_one_winner,
    retry_commit,
    table_at,
)
from tallystick.pipeline.lake.table_files import UNREADABLE, inside
from tallystick.pipeline.source.log_query import open_log
from tallystick.pipeline.storage.port import Storage, Taken
from tallystick.projections import ViewReader
from tallystick.projections.fingerprint import Digest, Fingerprint
from tallystick.store.events import Problem
from tallystick.store.store import Store
from tallystick.store.views import ROWS_PAGE, ViewRow

_AT_A_TIME = 10_000


class TableReplaceResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did. `left`: data files that the newest version does not name."""

    format: str
    projection: str
    rows: int
    position: int
    fingerprint: str
    changed: bool
    removed: int
    left: int


class RowsVerifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a table of rows; `unsure` lists what could not be checked."""

    format: str
    projection: str
    rows: int
    position: int
    problems: list[Problem]
    unsure: list[str]

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


def replace(
    url: str, projection: str, destination: str | Path | Storage, format: str | None = None, *, forget: bool = False
) -> TableReplaceResult:
    """Replace the rows of a table by the live rows of a projection."""
    table = table_at(destination, format)
    with open_log(url) as store:
        reader = ViewReader(store, projection)
        found, changed = retry_commit(table, lambda: _replace_rows(table, store, reader))
    return TableReplaceResult(
        format=table.format,
        projection=projection,
        rows=found.rows,
        position=found.position,
        fingerprint=found.digest,
        changed=changed,
        removed=remove_old_files(table) if forget else 0,
        left=_left(table),
    )


def _left(table: Table) -> int:
    read_mark(table)
    return table.left()


def _replace_rows(table: Table, store: Store, reader: ViewReader) -> tuple[Fingerprint, bool]:
    """Write the rows as they are now, unless the table has them already."""
    found = reader.fingerprint()
    wanted = TableMark(
        store_id=store.log.store_id.hex(), through=found.position, projection=found.name, fingerprint=found.digest
    )
    mark = table.mark()
    if mark is None:
        require_empty(table)
        require_one_winner(table)
        table.begin(msgspec.structs.replace(wanted, through=0, fingerprint=""), ROWS)
        mark = read_mark(table)
    _require_ours(table, mark, wanted)
    if mark == wanted:
        return found, False
    require_one_winner(table)
    rows = GuardedRows(_batches(store, reader, found))
    with rows.own_errors():
        table.replace(rows, wanted, ROWS)
    return found, True


def _require_ours(table: Table, mark: TableMark, wanted: TableMark) -> None:
    """Refuse a table of other rows, and one whose rows are newer than those of the log."""
    if mark.store_id != wanted.store_id:
        raise errors.WrongTable(path=str(table.storage), reason=f"it is of store {mark.store_id}")
    require_content(table, mark, projection=wanted.projection)
    if mark.through > wanted.through:
        reason = f"its rows are those of position {mark.through}, the log's only those of {wanted.through}"
        raise errors.WrongTable(path=str(table.storage), reason=reason)


def _batches(store: Store, reader: ViewReader, expected: Fingerprint) -> Iterator[pa.RecordBatch]:
    """The live rows; `Taken` if they no longer have the expected fingerprint."""
    digest, after = Digest(), ""
    waiting: list[ViewRow] = []
    while page := store.log.views.rows(reader.name, after=after, limit=ROWS_PAGE).rows:
        if any(row.state is None for row in page):
            raise Taken
        digest.add(page)
        after = page[-1].key
        waiting += page
        if len(waiting) >= _AT_A_TIME:
            yield _batch(waiting)
            waiting = []
    if digest.hex() != expected.digest:
        raise Taken
    if waiting:
        yield _batch(waiting)


def _batch(rows: list[ViewRow]) -> pa.RecordBatch:
    states = pa.array([row.state for row in rows], pa.binary()).cast(pa.string())
    return pa.RecordBatch.from_arrays([pa.array([row.key for row in rows], pa.string()), states], schema=ROWS)


def verify(url: str, destination: str | Path | Storage) -> RowsVerifyResult:
    """Check that a table has the rows that were written, and the log's rows if these are at the same position."""
    table = table_at(destination)
    mark = read_mark(table)
    if not mark.projection:
        raise errors.WrongTable(path=str(table.storage), reason="it holds events")
    with open_log(url) as store:
        if mark.store_id != store.log.store_id.hex():
            raise errors.WrongTable(path=str(table.storage), reason=f"it is of store {mark.store_id}")
        rows, problems = _read(table)
        if _fingerprint(rows) != mark.fingerprint:
            problems.append(Problem("fingerprint", "the rows do not have the fingerprint that they were written with"))
        place = ViewReader(store, mark.projection).place()
        unsure = []
        if place is None or place.position != mark.through:
            at = "gone" if place is None else f"at position {place.position}"
            unsure.append(f"whether they were the log's rows: the table is at position {mark.through}, the log's {at}")
        else:
            problems += _differing(store, mark.projection, rows)
    return RowsVerifyResult(
        format=table.format,
        projection=mark.projection,
        rows=len(rows),
        position=mark.through,
        problems=problems,
        unsure=unsure,
    )


def _read(table: Table) -> tuple[list[ViewRow], list[Problem]]:
    """All rows in order of key, and what is wrong with files or keys."""
    rows: list[ViewRow] = []
    problems: list[Problem] = []
    for file in table.files():
        try:
            with table.storage.opened(inside(file).name) as path, pq.ParquetFile(path) as opened:
                found = opened.read(columns=ROWS.names, use_threads=False)
            columns = (found[name].cast(pa.string()).cast(pa.binary()).to_pylist() for name in ROWS.names)
            rows += [
                ViewRow((key or b"").decode(errors="replace"), state or b"")
                for key, state in zip(*columns, strict=True)
            ]
        except UNREADABLE as problem:
            reason = "it is missing" if isinstance(problem, FileNotFoundError) else str(problem).partition("\n")[0]
            problems.append(Problem("file", f"{file.name}: {reason}"))
    rows.sort(key=lambda row: row.key.encode())
    again = sorted({one.key for one, other in pairwise(rows) if one.key == other.key})
    return rows, problems + [Problem("row", f"the table has the key {key!r} more than once") for key in again]


def _fingerprint(rows: list[ViewRow]) -> str:
    digest = Digest()
    digest.add(rows)
    return digest.hex()


def _differing(store: Store, projection: str, rows: list[ViewRow]) -> Iterator[Problem]:
    """Keys whose states differ between the log and the table, or that only one of them has."""
    theirs = {row.key: row.state for row in rows}
    after = ""
    while page := store.log.views.rows(projection, after=after, limit=ROWS_PAGE).rows:
        for row in page:
            if row.key not in theirs:
                yield Problem("row", f"the table does not have the key {row.key!r}")
            elif theirs.pop(row.key) != row.state:
                yield Problem("row", f"the table has another state of the key {row.key!r}")
        after = page[-1].key
    yield from (Problem("row", f"the log does not have the key {key!r}") for key in theirs)
