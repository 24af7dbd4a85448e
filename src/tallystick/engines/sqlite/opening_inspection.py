"""The inspection of a store that nobody is writing to: at opening, before anything is changed.

Everything is read through a connection that cannot write, because one that can checkpoints the write-ahead log when it
closes. A write-ahead log that does not belong to the file is left out.
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
from tallystick.engines.sqlite.kept_files import torn_log
from tallystick.engines.sqlite.mark import StoreMark
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.sqlite.wal import WalContent
from tallystick.engines.tables import translate
from tallystick.engines.tables.connection import connect
from tallystick.store.page import Hole

_UNCOUNTED = "checkpoints, leases and rows that were saved after the last event may be lost"
READING, IMMUTABLE = "ro", "ro&immutable=1"
_USER_VERSION_AT = 60
_CANNOT_WRITE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


class OpeningInspection(msgspec.Struct, frozen=True):
    """What was found. `mode` is how the file must be read, `log` its write-ahead log.

    `lost` are positions at the end that were acknowledged and are missing; `is_counted`: no others are. `is_cut`: data
    without a position and a checksum (checkpoints, rows, commands, leases) may be older than what was acknowledged.
    """

    log: WalContent = WalContent()
    damage: str | None = None
    lost: Hole | None = None
    is_counted: bool = True
    is_cut: bool = False
    is_unclean: bool = False
    mode: str = READING
    recovered: tuple[str, ...] = ()


def inspect(path: str, *, busy_ms: int) -> OpeningInspection:
    """Inspect a store that nobody has open for writing."""
    log, marked = wal.inspect(f"{path}-wal"), mark.load(path)
    if damage := _stray_journal(path):
        return _inspect(path, IMMUTABLE, busy_ms, log, marked, damage)
    if damage := _stray_log(path, log, marked):
        return _inspect(path, IMMUTABLE, busy_ms, WalContent(log.bytes), marked, damage)
    return _inspect(path, mode_of(path, log, busy_ms=busy_ms), busy_ms, log, marked, log.damage)


def require_unmarked(path: str, marked: StoreMark | None) -> None:
    """Refuse to treat a file as new whose mark says that it had events."""
    if marked is not None and marked.head > 0:
        reason = f"the file has no store any more, and {os.path.basename(path)}.mark says that they were acknowledged"
        raise errors.Damaged(first=1, last=marked.head, reason=f"{reason}; remove the mark to begin a new store")


def mode_of(path: str, log: WalContent, *, busy_ms: int) -> str:
    """How to connect to a file: without locks if nothing can be created next to it and it has no write-ahead log."""
    try:
        with closing(connect(path, mode=READING, busy_ms=busy_ms)) as connection:
            migrations.version_of(connection)
    except sqlite3.OperationalError as problem:
        if getattr(problem, "sqlite_errorcode", 0) & 0xFF not in _CANNOT_WRITE:
            raise
        if log.bytes:
            reason = f"its write-ahead log ({log.bytes} bytes) cannot be replayed where nothing can be written"
            raise errors.ReadFailed(path=path, reason=f"{reason}: copy the store to another place") from problem
        return IMMUTABLE
    return READING


def keep_torn_log(path: str, log: WalContent, *, time_ns: int) -> str:
    """Copy a write-ahead log with a torn end, before SQLite writes over that end."""
    kept = torn_log(path, time_ns)
    shutil.copyfile(f"{path}-wal", kept)
    os.chmod(kept, 0o600)
    disk = Disk()
    file = disk.open_write(kept)
    file.sync()
    file.close()
    disk.sync_dir(os.path.dirname(path))
    return (
        f"the last commit in the write-ahead log ({log.bytes} bytes) was not complete: it was not acknowledged, or the "
        f"power was lost; the log was kept as {os.path.basename(kept)}"
    )


def _stray_journal(path: str) -> str | None:
    """A rollback journal. Only a store that is being created may have one: SQLite would roll the file back with it."""
    try:
        with open(f"{path}-journal", "rb") as journal:
            is_hot = journal.read(1) not in (b"", b"\0")
    except FileNotFoundError:
        return None
    with open(path, "rb") as file:
        is_created = file.read(_USER_VERSION_AT + 4)[_USER_VERSION_AT:] not in (b"", bytes(4))
    name = f"{os.path.basename(path)}-journal"
    return f"{name}, a rollback journal, is next to it and does not belong to it" if is_hot and is_created else None


def _stray_log(path: str, log: WalContent, marked: StoreMark | None) -> str | None:
    """A write-ahead log next to a store that was closed without one."""
    if marked is None or marked.is_open or not (log.commits or log.damage):
        return None
    with closing(connect(path, mode=IMMUTABLE)) as connection:
        if not is_marked(connection, marked):
            return None
    name = f"{os.path.basename(path)}-wal"
    return f"{name} is next to it and does not belong to it: the store was closed without a write-ahead log"


def _inspect(
    path: str, mode: str, busy_ms: int, log: WalContent, marked: StoreMark | None, damage: str | None
) -> OpeningInspection:
    with closing(connect(path, mode=mode, busy_ms=busy_ms)) as connection:
        connection.execute("BEGIN")  # one snapshot: others may write while a reader inspects
        version = migrations.version_of(connection)
        if version == 0:
            require_unmarked(path, marked)
            return OpeningInspection(log, mode=mode)
        migrations.require_known(version, path=path)
        lost, is_unclean, is_latest = None, log.bytes > 0, version == migrations.latest()
        is_cut = log.damage is not None
        try:
            marked = marked if marked is not None and is_marked(connection, marked) else None
            is_unclean = is_unclean or (marked is not None and marked.is_open)
            lost = _lost(connection, log, marked) if is_latest or marked is not None else None
            damage = damage or (lost.reason if lost is not None else None)
            if damage is None and is_latest:
                damage = survey.quick_damage_in(connection)
            if damage is None and is_unclean:
                damage = survey.damage_in(connection, newest=is_latest)
                is_cut = damage is not None
        except sqlite3.DatabaseError as problem:
            if not translate.is_damage(problem):
                raise
            damage, is_cut = damage or str(problem), True
    recovered = () if damage else _recovered(log, marked)
    is_counted = lost is None or marked is not None
    return OpeningInspection(log, damage, lost, is_counted, is_cut or lost is not None, is_unclean, mode, recovered)


def is_marked(connection: sqlite3.Connection, marked: StoreMark) -> bool:
    """Whether a mark belongs to this store: another store may have been put in its place."""
    if not migrations.oldest() <= migrations.version_of(connection) <= migrations.latest():
        return False
    return survey.identity(connection)[0] == marked.store_id


def _lost(connection: sqlite3.Connection, log: WalContent, marked: StoreMark | None) -> Hole | None:
    """The positions that the log should have after its last one."""
    head = SqliteView(connection).head()
    if marked is None:
        return Hole(head + 1, head + 1, f"{log.damage}; how many are lost is not known") if log.damage else None
    if head >= marked.head:
        return None
    cause = log.damage or "the log ends before them"
    return Hole(head + 1, marked.head, f"they were acknowledged, and are lost: {cause}")


def _recovered(log: WalContent, marked: StoreMark | None) -> tuple[str, ...]:
    if log.bytes:
        replayed = f"a writer did not close: its write-ahead log ({log.bytes} bytes) was replayed"
        return (f"{replayed}; if its end was cut or changed since, {_UNCOUNTED}",)
    if marked is not None and marked.is_open:
        reason = "a writer did not close, and its write-ahead log is gone: no acknowledged event is missing"
        return (f"{reason}; {_UNCOUNTED}",)
    return ()
