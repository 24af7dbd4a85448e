"""A table of Delta Lake, by `deltalake`. The mark is the version of an application transaction (`txn`) of the table.

Every commit is tried once, on the version that was read: the library would otherwise try again on a newer one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from tallystick import errors
from tallystick.pipeline.disk_place import Disk
from tallystick.pipeline.lake.form import BARE, PARTITIONS, SCHEMA
from tallystick.pipeline.lake.table import DELTA, OWNER, SHARES, Listed, Mark
from tallystick.pipeline.place import Place, Taken

_SETTINGS = {
    "delta.dataSkippingStatsColumns": "position",
    "delta.logRetentionDuration": "interval 5200 weeks",
}
_POSITIONS_AT_A_TIME = 2_000  # a statement with more takes long to plan
_WRITER = WriterProperties(
    compression="ZSTD",
    column_properties={name: ColumnProperties(statistics_enabled="NONE", dictionary_enabled=False) for name in BARE},
)
_REASON_CHARACTERS_MAX = 300


class Delta:
    """A table in a directory or in an object store."""

    format = DELTA

    def __init__(self, place: Place) -> None:
        self.place = place
        self._url = str(place.directory) if isinstance(place, Disk) else str(place)
        self._mark: Mark | None = None
        self._table: Any = None

    def mark(self) -> Mark | None:
        """The mark of the newest version."""
        with self._clearly():
            try:
                self._table = DeltaTable(self._url)
            except TableNotFoundError:
                return None
            said = self._table.metadata().configuration
            if OWNER not in said or not str(said.get(SHARES, "")).isdecimal():
                raise errors.WrongTable(path=str(self.place), reason="it is not a table of events of a log")
            owner = said[OWNER]
            through = self._table.transaction_version(_application(owner)) or 0
            self._mark = Mark(store_id=owner, through=through, buckets=int(said[SHARES]))
        return self._mark

    def begin(self, mark: Mark, schema: pa.Schema) -> None:
        """Make a table without rows."""
        with self._clearly():
            DeltaTable.create(
                self._url,
                schema,
                partition_by=list(PARTITIONS),
                name="events",
                configuration=_SETTINGS | {OWNER: mark.store_id, SHARES: str(mark.buckets)},
                raise_if_key_not_exists=False,
            )

    def append(self, rows: Iterator[pa.RecordBatch], *, through: int) -> None:
        """Add rows and move the mark."""
        assert self._mark is not None
        with self._clearly():
            write_deltalake(
                self._table,
                pa.RecordBatchReader.from_batches(SCHEMA, rows),
                mode="append",
                writer_properties=_WRITER,
                commit_properties=_commit(self._mark, through),
                post_commithook_properties=_hooks(),
            )

    def erase(self, positions: Sequence[int]) -> int:
        """Write the files again that hold payloads at these positions. The mark stays; a commit may be several."""
        assert self._mark is not None
        gone = 0
        for begin in range(0, len(positions), _POSITIONS_AT_A_TIME):
            some = positions[begin : begin + _POSITIONS_AT_A_TIME]
            listed = ", ".join(map(str, some))
            with self._clearly():
                done = self._table.update(
                    updates={"payload": "cast(null as string)"},
                    predicate=f"payload is not null and position between {min(some)} and {max(some)} "
                    f"and position in ({listed})",
                    writer_properties=_WRITER,
                    commit_properties=_commit(self._mark, self._mark.through),
                    post_commithook_properties=_hooks(),
                )
            gone += done["num_updated_rows"]
        return gone

    def files(self) -> list[Listed]:
        """The data files of the version that was read."""
        with self._clearly():
            found = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return [
            Listed(
                name=unquote(item["path"]),
                rows=item["num_records"],
                first=item.get("min.position"),
                last=item.get("max.position"),
                day=item["partition.day"],
                bucket=item["partition.bucket"],
            )
            for item in found
        ]

    def hidden(self) -> str | None:
        """Deletion vectors take rows away without changing a file; nothing here writes them."""
        with self._clearly():
            vectors = pa.table(self._table.deletion_vectors())
        return f"{vectors.num_rows} of its files have deletion vectors" if vectors.num_rows else None

    def forget(self) -> int:
        """Remove every data file that was there before a commit of ours and that the version after it does not name.

        The commit ends every other run that is under way, so nobody is about to list what is removed.
        """
        assert self._mark is not None
        there = self._there()
        self.append(iter(()), through=self._mark.through)
        self.mark()
        old = there - {file.name for file in self.files()}
        for name in sorted(old):
            self.place.remove(name)
        return len(old)

    def left(self) -> int:
        """How many data files no version of ours needs."""
        return len(self._there() - {file.name for file in self.files()})

    def _there(self) -> set[str]:
        return {name for name in self.place.names_below("") if name.endswith(".parquet") and name[0] != "_"}

    @contextmanager
    def _clearly(self) -> Iterator[None]:
        """Raise what the library says as an error of ours."""
        try:
            yield
        except CommitFailedError:
            raise Taken from None
        except (DeltaError, OSError) as problem:
            if "already exists" in str(problem):
                raise Taken from None
            reason = " ".join(str(problem).split())[:_REASON_CHARACTERS_MAX]
            raise errors.TableUnreachable(path=str(self.place), reason=reason) from problem


def _application(store_id: str) -> str:
    return f"tallystick/{store_id}"


def _commit(mark: Mark, through: int) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(_application(mark.store_id), through)], max_commit_retries=0)


def _hooks() -> PostCommitHookProperties:
    """Checkpoints of the log, by the library's rule; and no old version is removed unless that is asked for."""
    return PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
