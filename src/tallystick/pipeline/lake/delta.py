"""A table of Delta Lake, by `deltalake`. The mark is the version of an application transaction (`txn`) of the table.

Every commit is tried once, on the version that was read; the library's own retries on newer versions are off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import unquote

import msgspec
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
from tallystick.pipeline.lake.schema import BARE, PARTITIONS, ROWS, SCHEMA
from tallystick.pipeline.lake.table import (
    DELTA,
    FINGERPRINT,
    OWNER,
    PROJECTION,
    SHARES,
    ListedFile,
    TableMark,
    unreachable,
)
from tallystick.pipeline.storage.directory import DirectoryStorage
from tallystick.pipeline.storage.port import Storage, Taken

_SETTINGS = {"delta.logRetentionDuration": "interval 5200 weeks"}
_OWN_FILES = re.compile(r"(?:day=[^/]+/bucket=[^/]+/)?part-\d+-[0-9a-f-]{36}-c\d+(?:\.\w+)?\.parquet")
_POSITIONS_AT_A_TIME = 2_000  # a statement with more takes too long to plan
_WRITER = WriterProperties(
    compression="ZSTD",
    column_properties={name: ColumnProperties(statistics_enabled="NONE", dictionary_enabled=False) for name in BARE},
)
_WRITER_OF_ROWS = WriterProperties(
    compression="ZSTD", default_column_properties=ColumnProperties(statistics_enabled="NONE")
)


class Delta:
    """A table in a directory or in an object store."""

    format = DELTA
    commit_events = 1_000_000

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._url = str(storage.directory) if isinstance(storage, DirectoryStorage) else str(storage)
        self._mark: TableMark | None = None
        self._table: Any = None

    def mark(self) -> TableMark | None:
        """The mark of the newest version."""
        with self._translated_errors():
            try:
                self._table = DeltaTable(self._url)
            except TableNotFoundError:
                return None
            said = self._table.metadata().configuration
            if OWNER not in said or not str(said.get(SHARES, "")).isdecimal():
                raise errors.WrongTable(path=str(self.storage), reason="`tally pipeline lake` did not make it")
            projection = said.get(PROJECTION, "")
            self._mark = TableMark(
                store_id=said[OWNER],
                through=self._table.transaction_version(_application(said[OWNER], projection)) or 0,
                buckets=int(said[SHARES]),
                projection=projection,
                fingerprint=self._fingerprint() if projection else "",
            )
        return self._mark

    def _fingerprint(self) -> str:
        """The fingerprint in the newest commit; empty if another tool made that commit."""
        try:
            lines = self.storage.read(f"_delta_log/{self._table.version():020d}.json").splitlines()
        except FileNotFoundError:
            return ""
        said = [found["commitInfo"] for line in lines if "commitInfo" in (found := msgspec.json.decode(line))]
        return str(said[0].get(FINGERPRINT, "")) if said else ""

    def begin(self, mark: TableMark, schema: pa.Schema) -> None:
        """Create a table without rows."""
        with self._translated_errors():
            DeltaTable.create(
                self._url,
                schema,
                partition_by=list(PARTITIONS) if mark.buckets else None,
                name=mark.projection or "events",
                configuration=_configuration(mark),
                raise_if_key_not_exists=False,
            )

    def append(self, rows: Iterator[pa.RecordBatch], *, through: int) -> None:
        """Add rows and move the mark."""
        assert self._mark is not None
        self._write(rows, SCHEMA, "append", msgspec.structs.replace(self._mark, through=through))

    def replace(self, rows: Iterator[pa.RecordBatch], mark: TableMark, schema: pa.Schema) -> None:
        """Replace all rows, and set the mark."""
        self._write(rows, schema, "overwrite", mark)

    def _write(
        self, rows: Iterator[pa.RecordBatch], schema: pa.Schema, mode: Literal["append", "overwrite"], mark: TableMark
    ) -> None:
        with self._translated_errors():
            write_deltalake(
                self._table,
                pa.RecordBatchReader.from_batches(schema, rows),
                mode=mode,
                writer_properties=_WRITER_OF_ROWS if mark.projection else _WRITER,
                commit_properties=_commit(mark),
                post_commithook_properties=_hooks(),
            )

    def erase(self, positions: Sequence[int]) -> int:
        """Rewrite the files with payloads at these positions, in one or more commits. The mark does not move."""
        assert self._mark is not None
        gone = 0
        for begin in range(0, len(positions), _POSITIONS_AT_A_TIME):
            some = positions[begin : begin + _POSITIONS_AT_A_TIME]
            listed = ", ".join(map(str, some))
            with self._translated_errors():
                done = self._table.update(
                    updates={"payload": "cast(null as string)"},
                    predicate=f"payload is not null and position between {min(some)} and {max(some)} "
                    f"and position in ({listed})",
                    writer_properties=_WRITER,
                    commit_properties=_commit(self._mark),
                    post_commithook_properties=_hooks(),
                )
            gone += done["num_updated_rows"]
        return gone

    def files(self) -> list[ListedFile]:
        """The data files of the version that was read."""
        with self._translated_errors():
            found = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return [
            ListedFile(
                name=unquote(item["path"]),
                rows=item["num_records"],
                first=item.get("min.position"),
                last=item.get("max.position"),
                day=item.get("partition.day"),
                bucket=item.get("partition.bucket"),
            )
            for item in found
        ]

    def hidden(self) -> str | None:
        """Deletion vectors, which remove rows without changing a file. This module does not write them."""
        with self._translated_errors():
            vectors = pa.table(self._table.deletion_vectors())
        return f"{vectors.num_rows} of its files have deletion vectors" if vectors.num_rows else None

    def forget(self) -> int:
        """Commit, and remove every data file that existed before the commit and is not in the new version.

        The commit makes every other run under way fail, so no run can still add one of these files.
        """
        assert self._mark is not None
        existing = self._existing()
        self._write(iter(()), SCHEMA if self._mark.buckets else ROWS, "append", self._mark)
        self.mark()
        old = existing - {file.name for file in self.files()}
        for name in sorted(old):
            self.storage.remove(name)
        return len(old)

    def left(self) -> int:
        """The number of data files that the newest version does not name."""
        return len(self._existing() - {file.name for file in self.files()})

    def _existing(self) -> set[str]:
        return {name for name in self.storage.names_below("") if _OWN_FILES.fullmatch(name)}

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise errors of the library as `Taken` or `TableUnreachable`."""
        try:
            yield
        except CommitFailedError:
            raise Taken from None
        except (DeltaError, OSError) as problem:
            if "already exists" in str(problem):
                raise Taken from None
            raise unreachable(self, problem) from problem


def _application(store_id: str, projection: str) -> str:
    return f"tallystick/{store_id}/{projection}" if projection else f"tallystick/{store_id}"


def _configuration(mark: TableMark) -> dict[str, str | None]:
    """The properties of a table. Rows of a projection have no statistics: any column may hold parts of payloads."""
    own = {OWNER: mark.store_id, SHARES: str(mark.buckets)}
    if mark.projection:
        return {**_SETTINGS, **own, PROJECTION: mark.projection, "delta.dataSkippingNumIndexedCols": "0"}
    return {**_SETTINGS, **own, "delta.dataSkippingStatsColumns": "position"}


def _commit(mark: TableMark) -> CommitProperties:
    said = Transaction(_application(mark.store_id, mark.projection), mark.through)
    more = {FINGERPRINT: mark.fingerprint} if mark.projection else None
    return CommitProperties(custom_metadata=more, app_transactions=[said], max_commit_retries=0)


def _hooks() -> PostCommitHookProperties:
    """Checkpoints by the library's rule; old versions are removed only if the user asks for it."""
    return PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
