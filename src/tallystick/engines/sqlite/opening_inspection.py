"""What was left behind, looked at before anything is changed: for an opening that finds nobody else writing.

Everything is read through a connection that cannot write, because one that can brings the write-ahead log home when it
closes. Where the log beside the file does not belong to it, the file is read without it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing

import msgspec

from tallystick import errors
from tallystick.engines.disk import Disk
from tallystick.engines.sqlite import mark, migrations, survey, wal
from tallystick.engines.sqlite.kept_files import torn
from tallystick.engines.sqlite.mark import StoreMark
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.sqlite.wal import Left
from tallystick.engines.tables import translate
from tallystick.engines.tables.connection import connect
from tallystick.store.page import Hole

_UNCOUNTED = "places of consumers, leases and rows that were saved after the last event may be lost"
READING, ALONE = "ro", "ro&immutable=1"
_USER_VERSION_AT = 60
_CANNOT_WRITE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


class Finding(msgspec.Struct, frozen=True):
    """What a look found. `mode` is how the file must be read.

    `lost` are positions at the end that were acknowledged and are not there; `is_counted`: these are all. `is_cut`:
    what has no position and no checksum (places, rows, commands, leases) may be older than what was acknowledged.
    """

    left: Left = Left()
    damage: str | None = None
    lost: Hole | None = None
    is_counted: bool = True
    is_cut: bool = False
    is_unclean: bool = False
    mode: str = READING
    recovered: tuple[str, ...] = ()


def look(path: str, *, busy_ms: int) -> Finding:
    """Look at a store that nobody has open for writing."""
    left, marked = wal.look(f"{path}-wal"), mark.load(path)
    if damage := _stray_journal(path):
        return _judged(path, ALONE, busy_ms, left, marked, damage)
    if damage := _stray_log(path, left, marked):
        return _judged(path, ALONE, busy_ms, Left(left.bytes), marked, damage)
    return _judged(path, mode_of(path, left, busy_ms=busy_ms), busy_ms, left, marked, left.damage)


def require_unmarked(path: str, marked: StoreMark | None) -> None:
    """Refuse to take a place for empty whose mark says that events were there."""
    if marked is not None and marked.head > 0:
        reason = f"no store is left in the file, and {os.path.basename(path)}.mark says that they were acknowledged"
        raise errors.Damaged(first=1, last=marked.head, reason=f"{reason}; remove the mark to begin a new store")


def mode_of(path: str, left: Left, *, busy_ms: int) -> str:
    """How a file can be read: by itself if nothing can be written beside it, and no write-ahead log is needed."""
    try:
        with closing(connect(path, mode=READING, busy_ms=busy_ms)) as connection:
            migrations.version_of(connection)
    except sqlite3.OperationalError as problem:
        if getattr(problem, "sqlite_errorcode", 0) & 0xFF not in _CANNOT_WRITE:
            raise
        if left.bytes:
            reason = f"its write-ahead log ({left.bytes} bytes) cannot be replayed where nothing can be written"
            raise errors.ReadFailed(path=path, reason=f"{reason}: copy the store to another place") from problem
        return ALONE
    return READING


def keep_aside(path: str, left: Left, *, time_ns: int) -> str:
    """Copy a write-ahead log with a torn end, before SQLite writes over that end."""
    kept = torn(path, time_ns)
    shutil.copyfile(f"{path}-wal", kept)
    os.chmod(kept, 0o600)
    disk = Disk()
    file = disk.open_write(kept)
    file.sync()
    file.close()
    disk.sync_dir(os.path.dirname(path))
    return (
        f"the last commit in the write-ahead log ({left.bytes} bytes) was not whole: it was not acknowledged, or the "
        f"power was lost; the log was kept as {os.path.basename(kept)}"
    )


def _stray_journal(path: str) -> str | None:
    """A rollback journal belongs only to a store that is being made: SQLite would roll the file back with it."""
    try:
        with open(f"{path}-journal", "rb") as journal:
            is_hot = journal.read(1) not in (b"", b"\0")
    except FileNotFoundError:
        return None
    with open(path, "rb") as file:
        made = file.read(_USER_VERSION_AT + 4)[_USER_VERSION_AT:] not in (b"", bytes(4))
    name = f"{os.path.basename(path)}-journal"
    return f"{name}, a rollback journal, is beside it and does not belong to it" if is_hot and made else None


def _stray_log(path: str, left: Left, marked: StoreMark | None) -> str | None:
    """A write-ahead log beside a store that was closed without one."""
    if marked is None or marked.is_open or not (left.commits or left.damage):
        return None
    with closing(connect(path, mode=ALONE)) as connection:
        if not is_marked(connection, marked):
            return None
    name = f"{os.path.basename(path)}-wal"
    return f"{name} is beside it and does not belong to it: the store was closed without a write-ahead log"


def _judged(path: str, mode: str, busy_ms: int, left: Left, marked: StoreMark | None, damage: str | None) -> Finding:
    with closing(connect(path, mode=mode, busy_ms=busy_ms)) as connection:
        connection.execute("BEGIN")  # all that is compared is of one moment: a reader is not alone while it looks
        version = migrations.version_of(connection)
        if version == 0:
            require_unmarked(path, marked)
            return Finding(left, mode=mode)
        migrations.require_known(version, path=path)
        lost, is_unclean, is_latest = None, left.bytes > 0, version == migrations.latest()
        is_cut = left.damage is not None
        try:
            marked = marked if marked is not None and is_marked(connection, marked) else None
            is_unclean = is_unclean or (marked is not None and marked.is_open)
            lost = _lost(connection, left, marked) if is_latest or marked is not None else None
            damage = damage or (lost.reason if lost is not None else None)
            if damage is None and is_latest:
                damage = survey.unsound(connection)
            if damage is None and is_unclean:
                damage = survey.damage_in(connection, newest=is_latest)
                is_cut = damage is not None
        except sqlite3.DatabaseError as problem:
            if not translate.is_damage(problem):
                raise
            damage, is_cut = damage or str(problem), True
    recovered = () if damage else _recovered(left, marked)
    is_counted = lost is None or marked is not None
    return Finding(left, damage, lost, is_counted, is_cut or lost is not None, is_unclean, mode, recovered)


def is_marked(connection: sqlite3.Connection, marked: StoreMark) -> bool:
    """Whether a mark was kept of this store; another store may have been put in its place."""
    if not migrations.oldest() <= migrations.version_of(connection) <= migrations.latest():
        return False
    return survey.identity(connection)[0] == marked.store_id


def _lost(connection: sqlite3.Connection, left: Left, marked: StoreMark | None) -> Hole | None:
    """What the log ought to have after its last position."""
    head = SqliteView(connection).head()
    if marked is None:
        return Hole(head + 1, head + 1, f"{left.damage}; how many are lost is not known") if left.damage else None
    if head >= marked.head:
        return None
    cause = left.damage or "the log ends before them"
    return Hole(head + 1, marked.head, f"they were acknowledged, and are lost: {cause}")


def _recovered(left: Left, marked: StoreMark | None) -> tuple[str, ...]:
    if left.bytes:
        replayed = f"a writer did not close: its write-ahead log ({left.bytes} bytes) was replayed"
        return (f"{replayed}; if its end was cut or changed since, {_UNCOUNTED}",)
    if marked is not None and marked.is_open:
        reason = "a writer did not close, and its write-ahead log is gone: every event is there that was acknowledged"
        return (f"{reason}; {_UNCOUNTED}",)
    return ()
