"""The port to a table, whichever format it has: a mark that moves with every append, in the same commit.

The mark says whose events the table holds and up to which position. A commit goes on from the version that the mark
was read from, and fails with `Taken` if anybody has committed since: so an event is in the table once, whoever is
killed and whoever runs at the same time.
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
_ONCE = "_tally/once"  # both formats leave out what begins with an underscore
_BEGUN = frozenset({"_delta_log", "metadata", "_tally", STAGING})
_REASON_CHARACTERS_MAX = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*m|↳")
_QUERY = re.compile(r"\?[^\s:]*")  # in an address that an error quotes: a signature may be in it


class TableMark(msgspec.Struct, frozen=True, kw_only=True):
    """Whose events a table holds, how far, and into how many buckets its streams are put.

    Or it holds the rows of a projection, as they were at the position `through`, with this fingerprint.
    """

    store_id: str
    through: int
    buckets: int = 0
    projection: str = ""
    fingerprint: str = ""


class ListedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A data file of the newest version, and what the table says of it. Engines go by that without looking inside."""

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
    commit_events: int  # positions a commit has if nobody says how many

    def mark(self) -> TableMark | None:
        """The mark of the newest version, which the next commit goes on from; None if there is no table."""
        ...

    def begin(self, mark: TableMark, schema: pa.Schema) -> None:
        """Make a table without rows; `Taken` if there is one."""
        ...

    def append(self, rows: Iterator[pa.RecordBatch], *, through: int) -> None:
        """Add these rows and move the mark, in one commit."""
        ...

    def replace(self, rows: Iterator[pa.RecordBatch], mark: TableMark, schema: pa.Schema) -> None:
        """Put these rows in the place of all that are there, and take this mark, in one commit."""
        ...

    def erase(self, positions: Sequence[int]) -> int:
        """Write again, in one commit, the files that hold payloads at these positions; how many payloads went."""
        ...

    def files(self) -> list[ListedFile]:
        """The data files of the version that the mark was read from."""
        ...

    def hidden(self) -> str | None:
        """What takes rows away without changing a file, if there is such a thing: another tool did that."""
        ...

    def forget(self) -> int:
        """Remove old versions, and every data file that the newest one does not name; how many files went."""
        ...

    def left(self) -> int:
        """How many data files are there that the newest version does not name."""
        ...


def table_at(destination: str | Path | Storage, format: str | None = None) -> Table:
    """The table at a place, in the format that it has or, if there is none yet, that was asked for."""
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
    """The mark of a table that is there."""
    mark = table.mark()
    if mark is None:
        raise errors.TableNotFound(path=str(table.storage))
    return mark


def require_content(table: Table, mark: TableMark, *, projection: str) -> None:
    """Refuse a table that holds something else; no projection means events."""
    if mark.projection != projection:
        held = f"the rows of {mark.projection!r}" if mark.projection else "events"
        raise errors.WrongTable(path=str(table.storage), reason=f"it holds {held}")


def require_empty(table: Table) -> None:
    """Refuse to begin a table where something else is. A run that began one and was killed may have left a draft."""
    others = [name for name in table.storage.names_below("") if name.partition("/")[0] not in _BEGUN]
    if others and table.mark() is None:
        raise errors.WrongTable(path=str(table.storage), reason=f"something else is there: {others[0]}")


def require_one_winner(table: Table) -> None:
    """Refuse storage in which two runs could commit the same version."""
    require_conditional_writes(table.storage, _ONCE, lambda: uuid.uuid4().hex.encode(), what="table")


def remove_old_files(table: Table) -> int:
    """Remove what no version needs any more; how many data files went."""

    def forget() -> int:
        read_mark(table)
        return table.forget()

    return retry_commit(table, forget)


def unreachable(table: Table, problem: Exception) -> errors.TableUnreachable:
    """What a library says, as an error of ours: one line, without what may be secret in it."""
    reason = " ".join(_QUERY.sub("", _COLOURS.sub("", str(problem))).split())
    return errors.TableUnreachable(path=str(table.storage), reason=reason[:_REASON_CHARACTERS_MAX])


class GuardedRows(Iterator[pa.RecordBatch]):
    """Rows as they pass by; and what went wrong with them, which a library would hide."""

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
    def clearly(self) -> Iterator[None]:
        """Raise what went wrong with the rows as it was, and not what the library made of it."""
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
