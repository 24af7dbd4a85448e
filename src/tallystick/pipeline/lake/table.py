"""The port to a table, whichever format it has: a mark that moves with every append, in the same commit.

The mark says whose events the table holds and up to which position. A commit goes on from the version that the mark
was read from, and fails with `Taken` if anybody has committed since: so an event is in the table once, whoever is
killed and whoever runs at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import pyarrow as pa

from tallystick import errors
from tallystick.pipeline.place import Place, place_of

DELTA, ICEBERG = "delta", "iceberg"
FORMATS = (DELTA,)
OWNER, SHARES = "tallystick.store_id", "tallystick.buckets"


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Whose events a table holds, how far, and into how many buckets its streams are put."""

    store_id: str
    through: int
    buckets: int


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A data file of the newest version, and what the table says of it. Engines go by that without looking inside."""

    name: str
    rows: int
    first: int | None
    last: int | None
    day: object
    bucket: object


class Table(Protocol):
    """A table of events."""

    place: Place
    format: str

    def mark(self) -> Mark | None:
        """The mark of the newest version, which the next commit goes on from; None if there is no table."""
        ...

    def begin(self, mark: Mark, schema: pa.Schema) -> None:
        """Make a table without rows; `Taken` if there is one."""
        ...

    def append(self, rows: Iterator[pa.RecordBatch], *, through: int) -> None:
        """Add these rows and move the mark, in one commit."""
        ...

    def erase(self, positions: Sequence[int]) -> int:
        """Write again, in one commit, the files that hold payloads at these positions; how many payloads went."""
        ...

    def files(self) -> list[Listed]:
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


def table_at(destination: str | Path | Place, format: str | None = None) -> Table:
    """The table at a place, in the format that it has or, if there is none yet, that was asked for."""
    place = place_of(destination, what="table")
    found = _format_at(place)
    if format is not None and format not in FORMATS:
        raise errors.InvalidValue(what="format", value=format, must=" or ".join(FORMATS))
    if found is not None and format not in (None, found):
        raise errors.WrongTable(path=str(place), reason=f"it is a table of the format {found}, not {format}")
    chosen = found or format
    if chosen is None:
        raise errors.TableNotFound(path=str(place))
    try:
        from tallystick.pipeline.lake.delta import Delta

        return Delta(place)
    except ModuleNotFoundError as missing:
        raise errors.LakeMissing(library=missing.name or chosen) from missing


def _format_at(place: Place) -> str | None:
    return DELTA if place.names("_delta_log") else None
