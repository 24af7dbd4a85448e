"""Filling the tables of an engine that has them, from the events of its runs."""

from __future__ import annotations

from tallystick import errors
from tallystick.runs import journal
from tallystick.runs.activity import run_ids
from tallystick.runs.tables import Rows, RunTables, rows
from tallystick.store.store import Store


def fill_tables(store: Store, *, run: str | None = None) -> Rows:
    """Fill the tables of a store from the events of its runs, or of one; says what was put there."""
    tables: RunTables | None = getattr(store.log, "run_tables", None)
    if tables is None:
        raise errors.UnsupportedCapability(engine=store.log.engine, capability="tables of runs")
    found = rows(journal.load(store, name).state for name in ([run] if run is not None else run_ids(store)))
    tables.put(found)
    return found
