"""An archive as a table of Delta Lake or Apache Iceberg: a second list of the same files, for tools that know those.

Nothing is copied, and the manifest stays what the archive goes by: registering again puts the list right after any run.
Delta's is `_delta_log/` in the archive, Iceberg's is `iceberg/`, with a catalog in SQLite. Old versions of either list
may name files that an erasure or a merge has removed since.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from tallystick import errors
from tallystick.pipeline import manifest, shelving
from tallystick.pipeline.columns import COLUMNS, arrow_schema
from tallystick.pipeline.location import directory_of

DELTA, ICEBERG = "delta", "iceberg"
FORMATS = (DELTA, ICEBERG)
NAMESPACE, TABLE = "tallystick", "events"
_KEPT = {"delta.deletedFileRetentionDuration": "interval 5200 weeks"}  # VACUUM would take `heads/` for leftovers
_NS_A_MS = 1_000_000


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to the list of files, and how many there are."""

    format: str
    added: int
    removed: int
    files: int


def register(directory: str | Path, kind: str) -> Registered:
    """List the files of an archive as a table of this format."""
    place = directory_of(directory)
    if kind not in FORMATS:
        raise errors.InvalidValue(what="format", value=kind, must=" or ".join(FORMATS))
    try:
        with shelving.locked(place):
            wanted = [bucket.events.name for bucket in manifest.load(place).buckets if bucket.events is not None]
            return _as_delta(place, wanted) if kind == DELTA else _as_iceberg(place, wanted)
    except ModuleNotFoundError as missing:
        raise errors.LakeMissing(library=missing.name or kind) from missing


# --- Delta Lake ------------------------------------------------------------------------------------------------------


def _as_delta(place: Path, wanted: list[str]) -> Registered:
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import RemoveAction, create_table_with_add_actions

    schema = Schema.from_arrow(arrow_schema(COLUMNS))
    if not DeltaTable.is_deltatable(str(place)):
        adds = [_added(place, name) for name in wanted]
        create_table_with_add_actions(str(place), schema, adds, name=TABLE, configuration=_KEPT)
        return Registered(format=DELTA, added=len(adds), removed=0, files=len(wanted))
    table = DeltaTable(str(place))
    listed = {str(Path(uri.removeprefix("file://")).relative_to(place)) for uri in table.file_uris()}
    adds = [_added(place, name) for name in wanted if name not in listed]
    gone = sorted(listed.difference(wanted))
    if adds or gone:
        now = time.time_ns() // _NS_A_MS
        removes = [RemoveAction(path=name, data_change=True, deletion_timestamp=now) for name in gone]
        table.create_write_transaction([*adds, *removes], "append", schema)
    return Registered(format=DELTA, added=len(adds), removed=len(gone), files=len(wanted))


def _added(place: Path, name: str) -> Any:
    """The entry of one file, with what lets a reader skip it."""
    from deltalake.transaction import AddAction

    path = place / name
    first, last = shelving.positions_in(path)
    stats = {"numRecords": shelving.rows_in(path), "minValues": {"position": first}, "maxValues": {"position": last}}
    found = path.stat()
    return AddAction(name, found.st_size, {}, found.st_mtime_ns // _NS_A_MS, True, msgspec.json.encode(stats).decode())


# --- Apache Iceberg --------------------------------------------------------------------------------------------------


def _as_iceberg(place: Path, wanted: list[str]) -> Registered:
    paths = [(place / name).as_uri() for name in wanted]
    catalog = iceberg_catalog(place)
    catalog.create_namespace_if_not_exists(NAMESPACE)
    listed: set[str] = set()
    if catalog.table_exists((NAMESPACE, TABLE)):
        files = catalog.load_table((NAMESPACE, TABLE)).inspect.files()
        listed = set(files.column("file_path").to_pylist())
        if listed.difference(paths):  # begun anew: a list that still names what was erased is not kept
            catalog.drop_table((NAMESPACE, TABLE))
    table = catalog.create_table_if_not_exists((NAMESPACE, TABLE), arrow_schema(COLUMNS))
    removed = listed.difference(paths)
    new = paths if removed else [path for path in paths if path not in listed]
    if new:
        table.add_files(new, check_duplicate_files=False)
    added = len(set(paths).difference(listed))
    return Registered(format=ICEBERG, added=added, removed=len(removed), files=len(paths))


def iceberg_catalog(directory: str | Path) -> Any:
    """The catalog beside an archive; its table is `tallystick.events`."""
    from pyiceberg.catalog.sql import SqlCatalog

    place = directory_of(directory) / ICEBERG
    place.mkdir(exist_ok=True)
    return SqlCatalog(NAMESPACE, uri=f"sqlite:///{place}/catalog.db", warehouse=place.as_uri())
