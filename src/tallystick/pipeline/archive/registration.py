"""Registering an archive as a table of Delta Lake or Apache Iceberg: a second list of the same files, for other tools.

Nothing is copied, and the manifest stays in force. Register again after a run to update the list. Delta's list is
`_delta_log/` in the archive; Iceberg's is `iceberg/`, with a catalog in SQLite. Old versions of either list may name
files that an erasure or a merge has removed since.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from tallystick import errors
from tallystick.pipeline.archive import archive_files, bucket_reader, manifest
from tallystick.pipeline.archive.bucket_reader import BucketFile
from tallystick.pipeline.source.columns import COLUMNS, arrow_schema
from tallystick.pipeline.storage.port import directory_at

DELTA, ICEBERG = "delta", "iceberg"
FORMATS = (DELTA, ICEBERG)
NAMESPACE, TABLE = "tallystick", "events"
_KEPT = {
    "delta.deletedFileRetentionDuration": "interval 5200 weeks"
}  # VACUUM would remove `heads/`, which the table does not list
_BOUNDS = {"write.metadata.metrics.default": "none", "write.metadata.metrics.column.position": "full"}
_NS_A_MS = 1_000_000


class RegisterResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many files were added to the list, removed from it, and are in it now."""

    format: str
    added: int
    removed: int
    files: int


def register(given: str | Path, kind: str) -> RegisterResult:
    """List the files of an archive as a table of this format."""
    directory = directory_at(given, what="archive to register")
    if kind not in FORMATS:
        raise errors.InvalidValue(what="format", value=kind, must=" or ".join(FORMATS))
    try:
        with archive_files.locked(directory):
            found = map(bucket_reader.file_of, manifest.load(directory).buckets)
            wanted = {file.name: file for file in found if file is not None}
            return _register_delta(directory, wanted) if kind == DELTA else _register_iceberg(directory, wanted)
    except ModuleNotFoundError as missing:
        raise errors.LakeMissing(library=missing.name or kind) from missing


# --- Delta Lake ------------------------------------------------------------------------------------------------------


def _register_delta(directory: Path, wanted: dict[str, BucketFile]) -> RegisterResult:
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import RemoveAction, create_table_with_add_actions

    schema = Schema.from_arrow(arrow_schema(COLUMNS))
    if not DeltaTable.is_deltatable(str(directory)):
        adds = [_entry(directory, file) for file in wanted.values()]
        create_table_with_add_actions(str(directory), schema, adds, name=TABLE, configuration=_KEPT)
        return RegisterResult(format=DELTA, added=len(adds), removed=0, files=len(wanted))
    table = DeltaTable(str(directory))
    listed = {str(Path(uri.removeprefix("file://")).relative_to(directory)) for uri in table.file_uris()}
    adds = [_entry(directory, file) for name, file in wanted.items() if name not in listed]
    gone = sorted(listed.difference(wanted))
    if adds or gone:
        now = time.time_ns() // _NS_A_MS
        removes = [RemoveAction(path=name, data_change=True, deletion_timestamp=now) for name in gone]
        table.create_write_transaction([*adds, *removes], "append", schema)
    return RegisterResult(format=DELTA, added=len(adds), removed=len(gone), files=len(wanted))


def _entry(directory: Path, file: BucketFile) -> Any:
    """The entry of one file. Its statistics come from the manifest, not from the file itself."""
    from deltalake.transaction import AddAction

    bucket_reader.require_file(directory, file)
    stats = {"numRecords": file.rows, "minValues": {"position": file.first}, "maxValues": {"position": file.last}}
    found = (directory / file.name).stat()
    return AddAction(
        file.name, found.st_size, {}, found.st_mtime_ns // _NS_A_MS, True, msgspec.json.encode(stats).decode()
    )


# --- Apache Iceberg --------------------------------------------------------------------------------------------------


def _register_iceberg(directory: Path, wanted: dict[str, BucketFile]) -> RegisterResult:
    paths = {(directory / file.name).as_uri(): file for file in wanted.values()}
    catalog = iceberg_catalog(directory)
    catalog.create_namespace_if_not_exists(NAMESPACE)
    listed: set[str] = set()
    is_kept = False
    if catalog.table_exists((NAMESPACE, TABLE)):
        table = catalog.load_table((NAMESPACE, TABLE))
        listed = set(table.inspect.files().column("file_path").to_pylist())
        is_kept = listed <= paths.keys() and table.properties.items() >= _BOUNDS.items()
    new = [path for path in paths if not is_kept or path not in listed]
    for path in new:
        bucket_reader.require_file(directory, paths[path])
    if listed and not is_kept:  # a list that still names erased files is made again
        _drop_table(directory, catalog)
    table = catalog.create_table_if_not_exists((NAMESPACE, TABLE), arrow_schema(COLUMNS), properties=_BOUNDS)
    if new:
        table.add_files(new, check_duplicate_files=False)
    added, removed = paths.keys() - listed, listed - paths.keys()
    return RegisterResult(format=ICEBERG, added=len(added), removed=len(removed), files=len(paths))


def _drop_table(directory: Path, catalog: Any) -> None:
    """Remove the table and all its metadata: earlier versions stored the first bytes of payloads there."""
    metadata = Path(unquote(urlsplit(catalog.load_table((NAMESPACE, TABLE)).location()).path)) / "metadata"
    catalog.drop_table((NAMESPACE, TABLE))
    if metadata.resolve().is_relative_to((directory / ICEBERG).resolve()):
        shutil.rmtree(metadata, ignore_errors=True)


def iceberg_catalog(given: str | Path) -> Any:
    """The Iceberg catalog of an archive; its table is `tallystick.events`."""
    from pyiceberg.catalog.sql import SqlCatalog

    directory = directory_at(given, what="archive") / ICEBERG
    directory.mkdir(exist_ok=True)
    return SqlCatalog(NAMESPACE, uri=f"sqlite:///{directory}/catalog.db", warehouse=directory.as_uri())
