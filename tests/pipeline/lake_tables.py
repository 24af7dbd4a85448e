"""What tests of tables share: reading and changing a table as its own library does, beside our code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tallystick.event.model import Event
from tallystick.pipeline.columns import COLUMNS, arrow_schema, to_events
from tallystick.pipeline.lake.directory_catalog import DirectoryCatalog
from tallystick.pipeline.lake.form import PARTITIONS, SCHEMA
from tallystick.pipeline.place import place_of

Change = Callable[[pa.Table], pa.Table]


def rows_of(place: str | Path, kind: str) -> pa.Table:
    """Every row of a table, as its own library reads it, in the order of positions."""
    if kind == "delta":
        found = pa.table(DeltaTable(str(place)).to_pyarrow_table())
    else:
        found = DirectoryCatalog(place_of(place)).load_table().scan().to_arrow().cast(SCHEMA)
    return found.sort_by([("position", "ascending"), ("seq", "ascending")])


def events_of(place: str | Path, kind: str) -> list[Event]:
    """The events of a table."""
    table = rows_of(place, kind).select(list(COLUMNS)).cast(arrow_schema(COLUMNS))
    return [event for batch in table.to_batches() for event in to_events(batch)]


def rewrite(place: str | Path, kind: str, change: Change) -> None:
    """Put other rows in the place of all rows, by the format's own library and in a commit of it."""
    if kind == "iceberg":
        DirectoryCatalog(place_of(place)).load_table().overwrite(change(rows_of(place, kind)))
        return
    write_deltalake(str(place), change(rows_of(place, kind)), mode="overwrite", partition_by=list(PARTITIONS))
