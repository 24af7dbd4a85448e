"""Reclaims disk space, and removes the last traces of erased payloads.

Maintenance overwrites what it deletes with zeros, and truncates the write-ahead log that still had it. One trace can be
left: if SQLite moved rows between pages earlier, an old copy may be in an unused part of a page. So the whole file is
rewritten once after an erasure (VACUUM), and `sweeps` records up to which erasure that was done. Files that were kept
next to the store earlier (`kept_files.py`) are removed with it.

A reader of an old snapshot keeps the write-ahead log. Then the next `reclaim` does the rest.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress

from tallystick import errors
from tallystick.engines.sqlite import kept_files, statements
from tallystick.engines.tables.connection import connect
from tallystick.engines.tables.database import Database, translating
from tallystick.engines.tables.writer import SqliteWriter
from tallystick.store.maintenance import Maintenance, Reclaimed

AFTER_COMMIT_MS = 250  # how long an erasure waits for readers before it leaves the rest to `reclaim`
FREE_PAGES_MIN = 256
_FREE_PART = 4  # the file is rewritten when one page in four is free


class SqliteReclaimer:
    """Reclaims for one handle. `erased_in_wal`: a reader keeps erased payloads in the write-ahead log."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock
        self.erased_in_wal = False

    def after_commit(self, done: Maintenance | None) -> None:
        """Remove erased payloads from the write-ahead log, if no reader is in the way."""
        if done is None or not done.erasures:
            return
        self.erased_in_wal = True
        with suppress(errors.TallyError):  # the commit is durable anyway; the next one reports a failed disk
            maintainer = self._database.maintainer()
            with maintainer.exclusively("checkpointing an erasure") as connection:
                self.erased_in_wal = not maintainer.empty_wal(connection, wait_ms=AFTER_COMMIT_MS)

    def reclaim(self, progress: Callable[[int], None]) -> Reclaimed:
        """Rewrite the file if something was erased or much of it is free, and checkpoint the write-ahead log."""
        database = self._database
        assert database.writer is not None
        before = _size_of(database.path)
        with translating(database.path, database.busy_ms):
            connection = connect(database.path, mode="rw", busy_ms=database.busy_ms)
        sweeper = SqliteWriter(connection, path=database.path, busy_ms=database.busy_ms, turn=database.writer.turn)
        try:
            with sweeper.exclusively("reclaiming"):
                done = self._sweep(sweeper, connection, progress)
        finally:
            sweeper.close(checkpoint=False)
        return Reclaimed(tuple(done), before, _size_of(database.path))

    def _sweep(
        self, sweeper: SqliteWriter, connection: sqlite3.Connection, progress: Callable[[int], None]
    ) -> list[str]:
        done: list[str] = []
        erased, newest_fact = connection.execute(statements.named("unswept_erasures")).fetchone()
        if erased or _much_is_free(connection):
            _require_room(connection, self._database.path)
            connection.execute("VACUUM")
            done.append("rewrote the file without its free pages")
        progress(1)
        if not sweeper.empty_wal(connection, wait_ms=self._database.busy_ms):
            left = _wal_bytes(self._database.path)
            done.append(f"a reader holds {left} bytes of the write-ahead log: run reclaim again when it is gone")
            return done
        self.erased_in_wal = False
        if erased:
            gone, stuck = kept_files.remove(self._database.path)
            done += [f"removed {name}: it was set aside, and may hold what was erased" for name in gone]
            if stuck:
                done.append(f"could not remove {', '.join(stuck)}, which may hold what was erased: run reclaim again")
                return done
            connection.execute(statements.named("insert_sweep"), (newest_fact, self._clock()))
            done.append(f"swept out what was left of {erased} erased payloads")
        progress(2)
        return done


def _much_is_free(connection: sqlite3.Connection) -> bool:
    pages, free, _ = connection.execute(statements.named("count_pages")).fetchone()
    return bool(free >= FREE_PAGES_MIN and free * _FREE_PART >= pages)


def _require_room(connection: sqlite3.Connection, path: str) -> None:
    """Refuse without enough disk space: a rewrite puts every page in use into the write-ahead log first."""
    pages, free, page_bytes = connection.execute(statements.named("count_pages")).fetchone()
    needed = (pages - free) * page_bytes
    if shutil.disk_usage(os.path.dirname(path)).free < needed:
        raise errors.NoSpace(needed=needed, path=path)


def _wal_bytes(path: str) -> int:
    return os.path.getsize(f"{path}-wal") if os.path.exists(f"{path}-wal") else 0


def _size_of(path: str) -> int:
    return os.path.getsize(path) + _wal_bytes(path)
