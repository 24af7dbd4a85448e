"""Whether a table belongs to a log: its last event must be the one that the log has at that position."""

from __future__ import annotations

import pyarrow.compute as pc
import pyarrow.parquet as pq

from tallystick import errors
from tallystick.pipeline.archive.history import why_other_event, why_other_log
from tallystick.pipeline.lake.table import Table, TableMark, unreachable
from tallystick.pipeline.lake.table_files import inside
from tallystick.store.store import Store


def require_same_history(table: Table, mark: TableMark, store: Store) -> None:
    """Refuse a table of another log, or of another history of this log."""
    require_same_log(table, mark, store)
    position, link = _last(table)
    if reason := why_other_event(store, position, link.hex(), over_holes=True):
        raise errors.WrongTable(path=str(table.storage), reason=reason)


def require_same_log(table: Table, mark: TableMark, store: Store) -> None:
    """Refuse a table of another log, or one that goes further than this log."""
    if reason := why_other_log(store, mark.store_id, mark.through):
        raise errors.WrongTable(path=str(table.storage), reason=reason)


def _last(table: Table) -> tuple[int, bytes]:
    """The position and link of the last event; position 0 if the table has no events, or no bounds for its files."""
    files = [file for file in table.files() if file.last is not None]
    if not files:
        return 0, b""
    last = max(files, key=lambda file: file.last or 0)
    try:
        with table.storage.opened(inside(last).name) as path:
            rows = pq.read_table(path, columns=["position", "link"], partitioning=None, use_threads=False)
    except (OSError, ValueError) as problem:
        raise unreachable(table, problem) from problem
    if not rows.num_rows:
        return 0, b""
    at = rows["position"].to_pylist().index(pc.max(rows["position"]).as_py())
    return rows["position"][at].as_py(), rows["link"][at].as_py()
