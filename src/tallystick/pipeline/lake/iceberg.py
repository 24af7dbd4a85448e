"""A table of Apache Iceberg, by `pyiceberg`. The mark is a property of the table; each snapshot has it too.

The rows of a commit are in memory until it is done: the library can write partitions only from a whole table.
"""

from __future__ import annotations

import datetime
import re
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError, ValidationException
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from tallystick import errors
from tallystick.pipeline.lake import table_files
from tallystick.pipeline.lake.directory_catalog import DirectoryCatalog
from tallystick.pipeline.lake.schema import PARTITIONS, SCHEMA
from tallystick.pipeline.lake.storage_io import name_of, staged
from tallystick.pipeline.lake.table import (
    FINGERPRINT,
    ICEBERG,
    OWNER,
    PROJECTION,
    SHARES,
    ListedFile,
    TableMark,
    unreachable,
)
from tallystick.pipeline.storage.port import Storage, Taken

THROUGH = "tallystick.through"
_SETTINGS = {
    "write.metadata.metrics.default": "none",
    "write.metadata.metrics.column.position": "full",
    "write.parquet.compression-codec": "zstd",
    "commit.retry.num-retries": "0",  # a retry would commit on a version that the mark was not read from
}
_OWN_FILES = re.compile(
    r"data/(?:day=[^/]+/bucket=[^/]+/)?\d+-\d+-[0-9a-f-]{36}\.parquet"
    r"|metadata/(?:snap-\d+-\d+-[0-9a-f-]{36}|[0-9a-f-]{36}-m\d+)\.avro"
    r"|staging/part-[0-9a-f]{32}\.parquet"
)
_EPOCH = datetime.date(1970, 1, 1)


class Iceberg:
    """A table in a directory or in an object store. It is its own catalog."""

    format = ICEBERG
    commit_events = 250_000

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._catalog = DirectoryCatalog(storage)
        self._mark: TableMark | None = None
        self._table: Any = None

    def mark(self) -> TableMark | None:
        """The mark of the newest version."""
        with self._translated_errors():
            try:
                self._table = self._catalog.load_table()
                self._catalog.base = self._table.metadata_location
            except NoSuchTableError:
                return None
        said = self._table.properties
        if OWNER not in said or not all(said.get(name, "").isdecimal() for name in (SHARES, THROUGH)):
            raise errors.WrongTable(path=str(self.storage), reason="`tally pipeline lake` did not make it")
        self._mark = TableMark(
            store_id=said[OWNER],
            through=int(said[THROUGH]),
            buckets=int(said[SHARES]),
            projection=said.get(PROJECTION, ""),
            fingerprint=said.get(FINGERPRINT, ""),
        )
        return self._mark

    def begin(self, mark: TableMark, schema: pa.Schema) -> None:
        """Create a table without rows."""
        form = assign_fresh_schema_ids(Catalog._convert_schema_if_needed(schema))
        fields = [form.find_field(name) for name in PARTITIONS] if mark.buckets else []
        spec = PartitionSpec(
            *(
                PartitionField(field.field_id, 1000 + number, IdentityTransform(), field.name)
                for number, field in enumerate(fields)
            )
        )
        said = {OWNER: mark.store_id, SHARES: str(mark.buckets), THROUGH: str(mark.through)}
        if mark.projection:
            said |= {PROJECTION: mark.projection}
        with self._translated_errors():
            self._catalog.begin(form, spec, _SETTINGS | said)

    def append(self, rows: Iterator[pa.RecordBatch], *, through: int) -> None:
        """Add rows and move the mark."""
        table = pa.Table.from_batches(rows, SCHEMA)
        with self._translated_errors(), self._table.transaction() as transaction:
            transaction.append(table, snapshot_properties={THROUGH: str(through)})
            transaction.set_properties({THROUGH: str(through)})

    def replace(self, rows: Iterator[pa.RecordBatch], mark: TableMark, schema: pa.Schema) -> None:
        """Replace all rows, and set the mark."""
        table = pa.Table.from_batches(rows, schema)
        said = {THROUGH: str(mark.through), FINGERPRINT: mark.fingerprint}
        with self._translated_errors(), self._table.transaction() as transaction:
            self._exchange(transaction, [old for old, _ in self._data_files()], [table], said)
            transaction.set_properties(said)

    def erase(self, positions: Sequence[int]) -> int:
        """Rewrite the files with payloads at these positions."""
        with self._translated_errors():
            near = [(old, file) for old, file in self._data_files() if _may_hold(file, positions)]
            counts = [_without(self.storage, file, positions)[1] for _, file in near]
            found = [item for item, count in zip(near, counts, strict=True) if count]
            if not found:
                return 0
            through = {THROUGH: self._table.properties[THROUGH]}
            rows = (_without(self.storage, file, positions)[0] for _, file in found)  # one in memory at a time
            with self._table.transaction() as transaction:
                self._exchange(transaction, [old for old, _ in found], rows, through)
        return sum(counts)

    def _exchange(self, transaction: Any, old: list[Any], new: Iterable[pa.Table], said: dict[str, str]) -> None:
        """Replace data files by files with the rows of `new`."""
        with transaction.update_snapshot(said).overwrite() as snapshot:
            for file in old:
                snapshot.delete_data_file(file)
            for rows in (table for table in new if table.num_rows):
                metadata, io = transaction.table_metadata, self._table.io
                for file in _dataframe_to_data_files(metadata, rows, io, write_uuid=uuid.uuid4()):
                    snapshot.append_data_file(file)

    def files(self) -> list[ListedFile]:
        """The data files of the version that was read."""
        with self._translated_errors():
            return [file for _, file in self._data_files()]

    def _data_files(self) -> list[tuple[Any, ListedFile]]:
        number = self._table.schema().find_field("position").field_id if self._is_partitioned() else -1
        return [(task.file, self._listed(task.file, number)) for task in self._table.scan().plan_files()]

    def _is_partitioned(self) -> bool:
        return self._mark is not None and bool(self._mark.buckets)

    def _listed(self, file: Any, position: int) -> ListedFile:
        day, bucket = (file.partition[0], file.partition[1]) if self._is_partitioned() else (None, None)
        lower, upper = (_bound(bounds, position) for bounds in (file.lower_bounds, file.upper_bounds))
        return ListedFile(
            name=name_of(self.storage, file.file_path),
            rows=file.record_count,
            first=lower,
            last=upper,
            day=_EPOCH + datetime.timedelta(days=day) if isinstance(day, int) else day,
            bucket=bucket,
        )

    def hidden(self) -> str | None:
        """Delete files, which remove rows without changing a data file. This module does not write them."""
        with self._translated_errors():
            count = sum(bool(task.delete_files) for task in self._table.scan().plan_files())
        return f"{count} of its files have delete files" if count else None

    def forget(self) -> int:
        """Expire all snapshots but the newest, and remove files that existed before and are no longer named.

        The commit makes every other run under way fail, so no run can still add one of these files.
        """
        existing = self._existing()
        current = self._table.current_snapshot()
        old = [item.snapshot_id for item in self._table.snapshots() if current and item != current]
        with self._translated_errors(), self._table.transaction() as transaction:
            transaction.set_properties({"tallystick.forgotten": uuid.uuid4().hex})
            with ExpireSnapshots(transaction) as expiring:
                expiring.by_ids(old)
        self.mark()
        gone = existing - self._named()
        for name in sorted(gone):
            self.storage.remove(name)
        return sum(name.endswith(".parquet") for name in gone)

    def left(self) -> int:
        """The number of data files that the newest version does not name."""
        return sum(name.endswith(".parquet") for name in self._existing() - self._named())

    def _existing(self) -> set[str]:
        names = [*self.storage.names_below("data"), *self.storage.names("metadata"), *staged(self.storage)]
        return {name for name in names if _OWN_FILES.fullmatch(name)}

    def _named(self) -> set[str]:
        """The names of all files that the newest snapshot needs."""
        with self._translated_errors():
            found = {file.name for _, file in self._data_files()}
            if (current := self._table.current_snapshot()) is not None:
                found.add(name_of(self.storage, current.manifest_list))
                found |= {name_of(self.storage, item.manifest_path) for item in current.manifests(self._table.io)}
        return found

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise errors of the library as `Taken` or `TableUnreachable`."""
        try:
            yield
        except (CommitFailedException, TableAlreadyExistsError, ValidationException):
            raise Taken from None
        except (OSError, ValueError, pa.ArrowException) as problem:
            raise unreachable(self, problem) from problem


def _bound(bounds: dict[int, bytes] | None, field: int) -> int | None:
    found: Any = (bounds or {}).get(field)
    return None if found is None else int(from_bytes(LongType(), found))


def _may_hold(file: ListedFile, positions: Sequence[int]) -> bool:
    if file.first is None or file.last is None:
        return True
    return bisect_left(positions, file.first) < bisect_right(positions, file.last)


def _without(storage: Storage, file: ListedFile, positions: Sequence[int]) -> tuple[pa.Table, int]:
    """The rows of a file without these payloads, and the number of payloads removed."""
    rows = table_files.rows_of(storage, file)
    is_gone = pc.and_(pc.is_in(rows["position"], pa.array(positions, pa.int64())), pc.is_valid(rows["payload"]))
    count = pc.sum(is_gone).as_py() or 0
    payloads = pc.if_else(is_gone, pa.scalar(None, pa.string()), rows["payload"])
    return rows.set_column(rows.schema.get_field_index("payload"), "payload", payloads), count
