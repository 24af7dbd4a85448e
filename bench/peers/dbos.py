"""DBOS, a durable workflow library: a workflow whose steps do nothing, on its SQLite system database.

Its SQLite runs with the rollback journal and synchronous=FULL, which `Workflow` reads back: a step is on disk when it
returns, as a node of ours is. It keeps the step's output; it has no chain, no schema, no artifacts and no snapshot.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

UNEQUAL = "DBOS on SQLite, synchronous=FULL: one row a step, no hashes, no schemas, no artifacts"
_FULL = 2


class Peer:
    """DBOS with one workflow of empty steps."""

    def __init__(self, path: Path) -> None:
        from dbos import DBOS

        logging.getLogger("dbos").setLevel(logging.ERROR)
        DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{path}", "log_level": "ERROR"})

        def nothing() -> None:
            return None

        step: Any = DBOS.step()(nothing)  # not as decorators: without DBOS installed they have no types

        def repeat(steps: int) -> None:
            for _ in range(steps):
                step()

        self._dbos: Any = DBOS
        self._workflow: Any = DBOS.workflow()(repeat)
        DBOS.launch()
        self._require_durable(path)

    def run(self, steps: int) -> None:
        """One run of so many steps."""
        self._workflow(steps)

    def close(self) -> None:
        """Stop its threads and close its database."""
        self._dbos.destroy(destroy_registry=True)

    def _require_durable(self, path: Path) -> None:
        """A connection of its kind must be durable: DBOS sets nothing, so SQLite's defaults hold."""
        connection = sqlite3.connect(path)
        try:
            found = connection.execute("PRAGMA synchronous").fetchone()[0]
        finally:
            connection.close()
        if found != _FULL:
            raise RuntimeError(f"DBOS's SQLite runs with synchronous={found}, which is not comparable")


@contextmanager
def peer(path: Path) -> Iterator[Peer]:
    """DBOS on a new database."""
    found = Peer(path)
    try:
        yield found
    finally:
        found.close()
