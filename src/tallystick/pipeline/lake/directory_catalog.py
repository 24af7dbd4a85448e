"""A catalog for one Iceberg table, in the storage of the table itself: `metadata/vNUMBER.metadata.json`.

The highest number is in force, and `metadata/version-hint.text` names it, as in tables of Iceberg's Hadoop catalog.
A commit creates the next number (`Storage.put_new`): of two commits on the same version, the second fails. So no
number may become free again: these files are never removed.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

from tallystick.pipeline.lake.storage_io import StorageIO, location_of
from tallystick.pipeline.storage.port import Storage, Taken

IDENTIFIER = ("tallystick", "table")
HINT = "metadata/version-hint.text"
_NUMBERED = re.compile(r"metadata/v(\d+)\.metadata\.json")


class DirectoryCatalog(MetastoreCatalog):
    """The catalog of the one table in a storage. It refuses what only a catalog of many tables can do."""

    def __init__(self, storage: Storage) -> None:
        super().__init__("tallystick")
        self._storage = storage
        self._location = location_of(storage)
        self.base: str | None = None  # the only version to commit on; None: any version that was read

    def load_table(self, identifier: Any = IDENTIFIER) -> Table:
        """The newest version."""
        number = self._newest()
        if not number:
            raise NoSuchTableError(f"there is no table at {self._storage}")
        path = f"{self._location}/{_name(number)}"
        io = StorageIO(self._storage)
        return Table(IDENTIFIER, FromInputFile.table_metadata(io.new_input(path)), path, io, self)

    def begin(self, schema: Schema, spec: PartitionSpec, properties: dict[str, str]) -> None:
        """Create a table without rows; refused if there is a table."""
        metadata = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, self._location, properties)
        try:
            self._put(1, metadata)
        except Taken:
            raise TableAlreadyExistsError(str(self._storage)) from None

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Commit the version after the one that `table` was read from, or fail."""
        if self.base not in (None, table.metadata_location):
            raise CommitFailedException("the library commits on another version than the one that was read")
        number = _number_of(table.metadata_location)
        for requirement in requirements:
            requirement.validate(table.metadata)
        metadata = update_table_metadata(table.metadata, updates, metadata_location=table.metadata_location)
        try:
            self._put(number + 1, metadata)
        except Taken:
            raise CommitFailedException(f"another run has committed since version {number}") from None
        said = {"metadata": metadata, "metadata-location": f"{self._location}/{_name(number + 1)}"}
        return CommitTableResponse.model_validate(said)

    def _put(self, number: int, metadata: TableMetadata) -> None:
        self._storage.put_new(_name(number), metadata.model_dump_json().encode())
        self._storage.put(HINT, str(number).encode())

    def _newest(self) -> int:
        found = (_NUMBERED.fullmatch(name) for name in self._storage.names("metadata"))
        return max((int(match[1]) for match in found if match is not None), default=0)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("this catalog has exactly one table")

    create_table = register_table = drop_table = rename_table = _refuse
    create_namespace = drop_namespace = list_namespaces = list_tables = namespace_exists = _refuse
    load_namespace_properties = update_namespace_properties = _refuse
    list_views = load_view = drop_view = view_exists = register_view = _refuse


def _name(number: int) -> str:
    return f"metadata/v{number}.metadata.json"


def _number_of(location: str) -> int:
    match = _NUMBERED.search(location)
    assert match is not None, "this catalog read the table"
    return int(match[1])
