"""Stores of an older format, as the version of that time made them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tallystick.engines.sqlite import store_file

FORMATS = (16, 17)
FORMAT = FORMATS[0]


def create(path: str, *, profile: str, version: int = FORMAT) -> sqlite3.Connection:
    """An empty store, open."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA application_id = {store_file.APPLICATION_ID}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(Path(__file__).with_name(f"format_{version}.sql").read_text())
    connection.execute("INSERT INTO store VALUES (1, randomblob(16), ?, 5)", (profile,))
    connection.execute("INSERT INTO kept_counts VALUES ('dead_letters', 0)")
    connection.execute(f"PRAGMA user_version = {version:d}")
    return connection
