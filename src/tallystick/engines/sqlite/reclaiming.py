"""Room given back to the disk, and the last traces of what was erased.

What maintenance deletes is overwritten with zeros where it stood, and the write-ahead log that still held it is cut to
nothing. Only one thing is left: when SQLite moved rows from page to page before, an old copy may lie in an unused part
of a page. So after an erasure the file is rewritten whole (VACUUM), once, and `sweeps` notes up to where that was done.

A reader that holds an old state keeps the write-ahead log; then the work is done when `reclaim` runs again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress

from tallystick import errors
from tallystick.engines.sqlite import statements
from tallystick.engines.tables.connection import connect
from tallystick.engines.tables.database import Database
from tallystick.engines.tables.writer import Writer
from tallystick.store.maintenance import Maintenance, Reclaimed

AFTER_COMMIT_MS = 250  # how long an erasure waits for readers before it leaves the rest to `reclaim`
FREE_PAGES_MIN = 256
_FREE_PART = 4  # one page in so many


def after_commit(database: Database, done: Maintenance | None) -> None:
    """Take what was erased out of the write-ahead log, if no reader is in the way."""
    if done is None or not done.erasures:
        return
    with suppress(errors.TallyError):  # the commit is durable all the same; a failed disk shows at the next one
        maintainer = database.maintainer()
        with maintainer.alone("bringing an erasure home") as connection:
            maintainer.empty_wal(connection, wait_ms=AFTER_COMMIT_MS)


def reclaim(database: Database, *, clock: Callable[[], int], progress: Callable[[int], None]) -> Reclaimed:
    """Rewrite the file if something was erased or much of it is free, and bring the write-ahead log home."""
    assert database.writer is not None
    before = size_of(database.path)
    sweeper = Writer(
        connect(database.path, mode="rw", busy_ms=database.busy_ms),
        path=database.path,
        busy_ms=database.busy_ms,
        turn=database.writer.turn,
    )
    try:
        with sweeper.alone("reclaiming") as connection:
            done = _sweep(sweeper, connection, database, clock, progress)
    finally:
        sweeper.close(checkpoint=False)
    return Reclaimed(tuple(done), before, size_of(database.path))


def _sweep(
    sweeper: Writer,
    connection: sqlite3.Connection,
    database: Database,
    clock: Callable[[], int],
    progress: Callable[[int], None],
) -> list[str]:
    done: list[str] = []
    erased, newest_fact = connection.execute(statements.named("unswept_erasures")).fetchone()
    rewritten = False
    if erased or _much_is_free(connection):
        _require_room(connection, database.path)
        connection.execute("VACUUM")
        rewritten = True
        done.append("rewrote the file without its free pages")
    progress(1)
    if not sweeper.empty_wal(connection, wait_ms=database.busy_ms):
        done.append(f"a reader holds {_wal_bytes(database.path)} bytes of the write-ahead log: reclaim again later")
        return done
    if erased and rewritten:
        connection.execute(statements.named("insert_sweep"), (newest_fact, clock()))
        done.append(f"swept out the last traces of {erased} erased payloads")
    progress(2)
    return done


def _much_is_free(connection: sqlite3.Connection) -> bool:
    free = int(connection.execute("PRAGMA freelist_count").fetchone()[0])
    pages = int(connection.execute("PRAGMA page_count").fetchone()[0])
    return free >= FREE_PAGES_MIN and free * _FREE_PART >= pages


def _require_room(connection: sqlite3.Connection, path: str) -> None:
    """A rewrite puts every page in use into the write-ahead log before it goes home."""
    page_bytes, pages, free = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_size", "page_count", "freelist_count")
    )
    needed = page_bytes * (pages - free)
    if shutil.disk_usage(os.path.dirname(path)).free < needed:
        raise errors.NoSpace(needed=needed, path=path)


def _wal_bytes(path: str) -> int:
    return os.path.getsize(f"{path}-wal") if os.path.exists(f"{path}-wal") else 0


def size_of(path: str) -> int:
    """The bytes of the store on disk."""
    return os.path.getsize(path) + _wal_bytes(path)
