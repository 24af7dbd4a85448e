"""Connections to a SQLite file, and the settings of every one of them.

Invariants: write-ahead log and synchronous=FULL (a commit that returned is on disk), triggers fire for REPLACE too,
nothing in the schema is trusted, no implicit transactions, what is deleted is overwritten with zeros, and only the
owner can read the file.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tallystick import errors
from tallystick.engines.disk import Disk
from tallystick.engines.tables import translate
from tallystick.store.backoff import Backoff

BUSY_MS = 5000
_WAL_PAGES = 4000  # a checkpoint every 16 MB: fewer cost disk space, more cost a second fsync each
_SETTINGS = (
    "PRAGMA foreign_keys = OFF",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA recursive_triggers = ON",
    "PRAGMA cell_size_check = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}",
)
_creating = threading.Lock()


class SqliteTransactions(Protocol):
    """Where the transactions of a table come from: a `database.Database`, or a transaction that is open already."""

    def snapshot(self) -> AbstractContextManager[sqlite3.Connection]: ...
    def writing(self) -> AbstractContextManager[sqlite3.Connection]: ...


def connect(path: str, *, mode: str, busy_ms: int = BUSY_MS, settings: Sequence[str] = _SETTINGS) -> sqlite3.Connection:
    """A connection with mode `rw`, `ro`, or `ro&immutable=1` (reads only the main file and takes no lock)."""
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=busy_ms / 1000,
        cached_statements=256,
    )
    try:
        for setting in settings:
            connection.execute(setting)
    except BaseException as problem:
        connection.close()
        if isinstance(problem, UnicodeDecodeError):  # in SQLite's own message, which quotes the schema
            raise translate.damage("its schema is damaged: a name in it is not text") from problem
        raise
    return connection


def create_file(path: str) -> None:
    """Create an empty file that only its owner can read. The files that SQLite puts next to it get the same mode.

    Under a lock: closing a descriptor drops every POSIX lock that this process has on the file, so no other thread may
    open a connection between our open and our close.
    """
    disk = Disk()
    disk.make_dir(os.path.dirname(path))
    with _creating:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            return
        disk.sync_dir(os.path.dirname(path))


def enter_wal(connection: sqlite3.Connection, *, busy_ms: int = BUSY_MS) -> None:
    """Switch the database to a write-ahead log, permanently. SQLite's own busy wait does not cover this switch."""
    deadline, backoff = time.monotonic() + busy_ms / 1000, Backoff("busy database", tries_max=None)
    while True:
        try:
            answer = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as problem:
            if not translate.is_busy(problem) or time.monotonic() > deadline:
                raise
            backoff.pause()
    if answer != "wal":
        raise errors.StoreFailed(operation="switching to the write-ahead log", reason=f"SQLite answered {answer!r}")
