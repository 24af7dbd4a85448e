"""The port to a table of any format: every append moves a mark in the same commit.

The mark says whose events the table holds, and up to which position. A commit is made on the version that the mark was
read from, and fails with `Taken` if another run has committed since. So every event is in the table once, also after a
kill, and also if several runs work at the same time.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec
import pyarrow as pa

from tallystick import errors
from tallystick.pipeline.storage.directory import STAGING
from tallystick.pipeline.storage.port import Done, Storage, require_conditional_writes, retry_taken, storage_at

DELTA, ICEBERG = "delta", "iceberg"
FORMATS = (DELTA, ICEBERG)
OWNER, SHARES = "tallystick.store_id", "tallystick.buckets"
PROJECTION, FINGERPRINT = "tallystick.projection", "tallystick.fingerprint"
_ONCE = "_tally/once"  # both formats ignore names that begin with an underscore
_OWN_FOLDERS = frozenset({"_delta_log", "metadata", "_tally", STAGING})
_REASON_CHARACTERS_MAX = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*m|↳")
_QUERY = re.compile(r"\?[^\s:]*")  # the query of an address in an error: it may hold a signature


class TableMark(msgspec.Struct, frozen=True, kw_only=True):
    """Of which store a table holds events, up to which position, and into how many buckets its streams are split.

    If `projection` is set, the table holds the rows of that projection as of `through`, with this fingerprint.
    """

    store_id: str
    through: int
    buckets: int = 0
    projection: str = ""
    fingerprint: str = ""


class ListedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A data file of the newest version, with what the table says of it: engines trust that."""

    name: str
    rows: int
    first: int | None
    last: int | None
    day: object
    bucket: object


class Table(Protocol):
    """A table of events, or of the rows of a projection."""

    storage: Storage
    format: str
    commit_events: int  # positions per commit, by default

    def mark(self) -> TableMark | None:
        """The mark of the newest version, on which the next commit is made; None if there is no table."""
        ...

    def begin(self, mark: TableMark, schema: pa.Schema) -> None:
        """Create a table without rows; `Taken` if there is a table."""
        ...

    def append(self, rows: Iterator[pa.RecordBatch], *, through: int) -> None:
        """Add rows and move the mark, in one commit."""
        ...

    def replace(self, rows: Iterator[pa.RecordBatch], mark: TableMark, schema: pa.Schema) -> None:
        """Replace all rows and set the mark, in one commit."""
        ...

    def erase(self, positions: Sequence[int]) -> int:
        """Rewrite the files with payloads at these positions; the number of payloads removed."""
        ...

    def files(self) -> list[ListedFile]:
        """The data files of the version that the mark was read from."""
        ...

    def hidden(self) -> str | None:
        """What removes rows without changing a file, if another tool has added such a thing; otherwise None."""
        ...

    def forget(self) -> int:
        """Remove old versions, and every data file that the newest does not name; the number of files removed."""
        ...

    def left(self) -> int:
        """The number of data files that the newest version does not name."""
        ...


def table_at(destination: str | Path | Storage, format: str | None = None) -> Table:
    """The table in a storage, in its own format, or in the format that was asked for if it does not exist."""
    storage = storage_at(destination, what="table")
    found = _format_at(storage)
    if format is not None and format not in FORMATS:
        raise errors.InvalidValue(what="format", value=format, must=" or ".join(FORMATS))
    if found is not None and format not in (None, found):
        raise errors.WrongTable(path=str(storage), reason=f"it is a table of the format {found}, not {format}")
    chosen = found or format
    if chosen is None:
        raise errors.TableNotFound(path=str(storage))
    try:
        return _opened(storage, chosen)
    except ModuleNotFoundError as missing:
        raise errors.LakeMissing(library=missing.name or chosen) from missing


def retry_commit(table: Table, work: Callable[[], Done]) -> Done:
    """The result of work on the newest version of a table; it begins again if another run commits first."""
    return retry_taken(work, busy=errors.TableBusy(path=str(table.storage)))


def read_mark(table: Table) -> TableMark:
    """The mark of a table that exists."""
    mark = table.mark()
    if mark is None:
        raise errors.TableNotFound(path=str(table.storage))
    return mark


def require_content(table: Table, mark: TableMark, *, projection: str) -> None:
    """Refuse a table with other content; an empty `projection` means events."""
    if mark.projection != projection:
        held = f"the rows of {mark.projection!r}" if mark.projection else "events"
        raise errors.WrongTable(path=str(table.storage), reason=f"it holds {held}")


def require_empty(table: Table) -> None:
    """Refuse to begin a table where something else is. A run that began one and was killed may have left a draft."""
    others = [name for name in table.storage.names_below("") if name.partition("/")[0] not in _OWN_FOLDERS]
    if others and table.mark() is None:
        raise errors.WrongTable(path=str(table.storage), reason=f"it has other files: {others[0]}")


def require_one_winner(table: Table) -> None:
    """Refuse storage in which two runs could commit the same version."""
    require_conditional_writes(table.storage, _ONCE, lambda: uuid.uuid4().hex.encode(), what="table")


def remove_old_files(table: Table) -> int:
    """Remove what no version needs any more; the number of data files removed."""

    def forget() -> int:
        read_mark(table)
        return table.forget()

    return retry_commit(table, forget)


def unreachable(table: Table, problem: Exception) -> errors.TableUnreachable:
    """The error for a failure of a library: one line, without parts that may be secret."""
    reason = " ".join(_QUERY.sub("", _COLOURS.sub("", str(problem))).split())
    return errors.TableUnreachable(path=str(table.storage), reason=reason[:_REASON_CHARACTERS_MAX])


class GuardedRows(Iterator[pa.RecordBatch]):
    """Counts the rows that a library reads, and remembers an error in them, which the library would hide."""

    def __init__(self, rows: Iterator[pa.RecordBatch]) -> None:
        self._rows = rows
        self.count = 0
        self._problem: BaseException | None = None

    def __next__(self) -> pa.RecordBatch:
        try:
            batch = next(self._rows)
        except StopIteration:
            raise
        except BaseException as problem:
            self._problem = problem
            raise
        self.count += batch.num_rows
        return batch

    @contextmanager
    def own_errors(self) -> Iterator[None]:
        """Raise an error in the rows as it was, instead of the error that the library made of it."""
        try:
            yield
        except Exception:
            if self._problem is not None:
                raise self._problem from None
            raise


def _opened(storage: Storage, format: str) -> Table:
    if format == DELTA:
        from tallystick.pipeline.lake.delta import Delta

        return Delta(storage)
    from tallystick.pipeline.lake.iceberg import Iceberg

    return Iceberg(storage)


def _format_at(storage: Storage) -> str | None:
    if storage.names("_delta_log"):
        return DELTA
    return ICEBERG if storage.names("metadata") else None
