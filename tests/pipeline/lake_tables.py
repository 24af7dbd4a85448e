"""Shared by tests of tables: reading and changing a table by its own library, without our code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tallystick.event.model import Event
from tallystick.pipeline.lake.directory_catalog import DirectoryCatalog
from tallystick.pipeline.lake.schema import PARTITIONS, SCHEMA
from tallystick.pipeline.source.columns import COLUMNS, arrow_schema, to_events
from tallystick.pipeline.storage.port import storage_at

Change = Callable[[pa.Table], pa.Table]


def rows_of(place: str | Path, kind: str) -> pa.Table:
    """Every row of a table, as its own library reads it, in order of position."""
    if kind == "delta":
        found = pa.table(DeltaTable(str(place)).to_pyarrow_table())
    else:
        found = DirectoryCatalog(storage_at(place)).load_table().scan().to_arrow().cast(SCHEMA)
    return found.sort_by([("position", "ascending"), ("seq", "ascending")])


def events_of(place: str | Path, kind: str) -> list[Event]:
    """The events of a table."""
    table = rows_of(place, kind).select(list(COLUMNS)).cast(arrow_schema(COLUMNS))
    return [event for batch in table.to_batches() for event in to_events(batch)]


def rewrite(place: str | Path, kind: str, change: Change) -> None:
    """Replace all rows by others, in a commit of the format's own library."""
    if kind == "iceberg":
        DirectoryCatalog(storage_at(place)).load_table().overwrite(change(rows_of(place, kind)))
        return
    write_deltalake(str(place), change(rows_of(place, kind)), mode="overwrite", partition_by=list(PARTITIONS))


def bounded(place: str | Path, kind: str) -> set[str]:
    """The columns for which the table has bounds or counts."""
    if kind == "delta":
        names = pa.table(DeltaTable(str(place)).get_add_actions(flatten=True)).column_names
        return {name.partition(".")[2] for name in names if name.startswith(("min.", "max.", "null_count."))}
    table = DirectoryCatalog(storage_at(place)).load_table()
    fields = {field.field_id: field.name for field in table.schema().fields}
    said = table.inspect.files().to_pylist()
    kinds = ("lower_bounds", "upper_bounds", "null_value_counts", "value_counts")
    return {fields[number] for file in said for kind in kinds for number, _ in file[kind] or ()}
