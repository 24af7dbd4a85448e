"""Fill the run tables of an engine that has them, from the events of its runs."""

from __future__ import annotations

from tallystick import errors
from tallystick.runs import journal
from tallystick.runs.activity import run_ids
from tallystick.runs.reducer import STATE
from tallystick.runs.state import RunState
from tallystick.runs.tables import rows
from tallystick.state import fingerprints
from tallystick.store.capabilities import RUN_TABLES
from tallystick.store.facts import Sealed
from tallystick.store.run_tables import RunRows
from tallystick.store.store import Store


def fill_tables(store: Store, *, run: str | None = None) -> RunRows:
    """Fill the tables of a store from the events of its runs, or of one run. Returns the rows."""
    tables = store.log.run_tables
    if tables is None:
        raise errors.UnsupportedCapability(engine=store.log.engine, capability=RUN_TABLES)
    found = rows(sealed(store, name) for name in ([run] if run is not None else run_ids(store)))
    tables.put(found)
    return found


def sealed(store: Store, run: str) -> tuple[RunState, Sealed | None]:
    """The state of a run, and the fact that sealed it, unless the run has continued since."""
    found = fingerprints.latest(store, journal.stream_of(run), reducer=STATE.name)
    return journal.load(store, run).state, None if found is None or found.stale else found.fact
