"""Rows beside a log that were written before each of them had a check."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import tallystick
from tallystick.projections import Live, ViewReader
from tallystick.testing.contract.projections import fill
from tallystick.testing.shop import CustomerBalance

TABLES = ("views", "view_rows", "checkpoints")
DATABASES: dict[str, Callable[[Path], Path]] = {"files": lambda log: log / "beside.db", "sqlite": lambda log: log}


@pytest.mark.parametrize("engine", DATABASES)
def test_rows_of_an_older_format_are_given_their_checks(tmp_path: Path, engine: str) -> None:
    """SAFE-01: rows, places and checkpoints that were there before the checks are served after the upgrade."""
    url = f"{engine}:{tmp_path}/log"
    with tallystick.open(url) as store:
        fill(store, 8)
        Live(store, CustomerBalance()).catch_up()
        store.save_checkpoint("mailer", 3)
        rows = dict(ViewReader(store, CustomerBalance().name).items())
    with closing(sqlite3.connect(DATABASES[engine](tmp_path / "log"), isolation_level=None)) as raw:
        for table in TABLES:
            raw.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
        raw.execute("DROP TABLE batch_rows")
        raw.execute("ALTER TABLE views DROP COLUMN row_count")
        raw.execute("DROP TABLE kept_counts")
        raw.execute("PRAGMA user_version = 13")
    with tallystick.open(url) as store:
        assert rows
        assert dict(ViewReader(store, CustomerBalance().name).items()) == rows
        assert store.load_checkpoint("mailer") == 3
