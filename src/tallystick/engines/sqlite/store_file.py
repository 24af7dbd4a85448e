"""The file of a store: recognised or created, migrated to the current format, and inspected.

`application_id` is written before anything else, and before the write-ahead log exists. So it is always in the main
file, and a store can be recognised without locking, replaying or changing it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import msgspec

from tallystick import errors
from tallystick.engines.mounts import is_file_mount
from tallystick.engines.sqlite import authorizer, mark, migrations, statements, survey
from tallystick.engines.sqlite.locks import OpenLocks
from tallystick.engines.sqlite.opening_inspection import (
    READING,
    OpeningInspection,
    inspect,
    is_marked,
    keep_torn_log,
    require_unmarked,
)
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.tables import translate
from tallystick.engines.tables.connection import connect, create_file, enter_wal
from tallystick.store.page import Hole

APPLICATION_ID = 0x54414C59  # "TALY"
_EXCLUSIVE = "PRAGMA locking_mode = EXCLUSIVE"
_PAGE_BYTES_MIN = 512  # SQLite treats a shorter file as an empty database
SQLITE_NEEDED = (3, 37, 0)  # STRICT tables


class OpenedStore(msgspec.Struct):
    """A store that was opened. Without a writer it can only be read; `inspected` says whether that is for damage."""

    path: str
    writer: sqlite3.Connection | None
    store_id: bytes
    profile: str
    inspected: OpeningInspection
    recovered: tuple[str, ...]
    locks: OpenLocks | None = None


class StoreFile:
    """The file at a place, and the options to open it with."""

    def __init__(self, place: str, *, profile: str | None, clock: Callable[[], int], busy_ms: int) -> None:
        self.url = f"sqlite:{place}"
        self.path = os.path.realpath(place)
        self._profile = profile or "plain"
        self._clock = clock
        self._busy_ms = busy_ms
        self._recovered: list[str] = []
        self._is_new = False

    def open_reading(self) -> OpenedStore:
        """Open an existing store; nothing is created, migrated or repaired."""
        with self._translated():
            self._require_ours(create=False)
            locks = OpenLocks(self.path, busy_ms=self._busy_ms)
            try:
                return self._connect_reading(self._inspect_with_others(locks))
            finally:
                locks.leave()

    def _inspect_with_others(self, locks: OpenLocks) -> OpeningInspection:
        """Inspect for a reader, without holding up writers. A writer that came and went may look like damage.

        So damage counts only if it is found again while no writer can come.
        """
        locks.check_for_writers()
        if not locks.alone:
            return OpeningInspection()
        with suppress(errors.Damaged, sqlite3.DatabaseError):
            inspected = inspect(self.path, busy_ms=self._busy_ms)
            if inspected.damage is None:
                return inspected
        with locks.while_no_writer():
            return inspect(self.path, busy_ms=self._busy_ms) if locks.alone else OpeningInspection()

    def open_writing(self, *, create: bool) -> OpenedStore:
        """Open, create or migrate a store. A damaged one is returned without a writer, and unchanged."""
        with self._translated():
            self._require_ours(create=create)
            locks = OpenLocks(self.path, busy_ms=self._busy_ms)
            try:
                locks.enter()
                inspected = inspect(self.path, busy_ms=self._busy_ms) if locks.alone else OpeningInspection()
                if inspected.damage is None:
                    return self._connect_writing(inspected, locks)
            except BaseException:
                locks.leave()
                raise
            locks.leave()
            return self._connect_reading(inspected)

    def _connect_reading(self, inspected: OpeningInspection) -> OpenedStore:
        with closing(connect(self.path, mode=inspected.mode, busy_ms=self._busy_ms)) as connection:
            found = self._version(connection)
            if found < migrations.latest() and inspected.damage is not None:
                raise _not_migrated(found, inspected.damage, inspected.lost)
            self.require_current(connection)
            return self._opened(connection, inspected)

    def _connect_writing(self, inspected: OpeningInspection, locks: OpenLocks) -> OpenedStore:
        if inspected.log.is_torn:
            self._recovered.append(keep_torn_log(self.path, inspected.log, time_ns=self._clock()))
        self._require_no_older_process()
        connection = connect(self.path, mode="rw", busy_ms=self._busy_ms)
        try:
            self._set_up(connection, locks)
            if locks.alone:
                self._begin(connection, inspected, locks)
            authorizer.allow_appends(connection)
            locks.admit_others()
            opened = self._opened(connection, inspected)
            opened.writer, opened.locks = connection, locks
            return opened
        except BaseException:
            connection.close()
            raise

    def _require_no_older_process(self) -> None:
        """Refuse to upgrade a store that any process has open: older versions do not have all of our locks.

        SQLite gives a connection exclusive use of a file only if no other connection is open to it, in any process.
        """
        with closing(connect(self.path, mode=READING, busy_ms=self._busy_ms)) as connection:
            if not 0 < migrations.version_of(connection) < migrations.latest():
                return
        with closing(connect(self.path, mode="rw", busy_ms=self._busy_ms, settings=(_EXCLUSIVE,))) as connection:
            try:
                migrations.version_of(connection)
            except sqlite3.OperationalError as problem:
                if not translate.is_busy(problem):
                    raise
                owner = "a process of an older version, or one that reads it, and it has to be upgraded"
                raise errors.StoreLocked(path=self.path, owner=owner) from problem

    def _begin(self, connection: sqlite3.Connection, inspected: OpeningInspection, locks: OpenLocks) -> None:
        """Take over a store that nobody else has open: free what others held, and note in the mark that it is open."""
        if inspected.is_unclean or self._is_new:
            self._checkpoint(connection)  # for a new store too: its identity must be in the file
        locks.mark.begin(survey.identity(connection)[0], SqliteView(connection).head())
        if connection.execute(statements.named("any_holder")).fetchone()[0]:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(statements.named("forget_writers"))
            connection.execute(statements.named("release_all"))
            connection.execute("COMMIT")

    def require_current(self, connection: sqlite3.Connection) -> None:
        """Refuse a format that this version does not write."""
        found = self._version(connection)
        if found < migrations.latest():
            raise errors.OlderFormat(path=self.path, found=found, known=migrations.latest())

    def require_ours(self) -> None:
        """Refuse a file that is not a store."""
        with self._translated():
            self._require_ours(create=False)

    def _require_ours(self, *, create: bool) -> None:
        if sqlite3.sqlite_version_info < SQLITE_NEEDED:
            raise errors.UnknownUrl(url=self.url, reason=f"SQLite {sqlite3.sqlite_version} is older than 3.37")
        try:
            status = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            status = None
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise errors.UnknownUrl(url=self.url, reason="it is not a regular file")
        if status is not None and status.st_nlink > 1:
            reason = f"the file has {status.st_nlink} names (hard links), each with a write-ahead log of its own"
            raise errors.UnknownUrl(url=self.url, reason=f"{reason}: remove the others, or copy the file")
        if status is not None and is_file_mount(self.path):
            reason = "only the file is mounted here, so that its write-ahead log would be visible under this name only"
            raise errors.UnknownUrl(url=self.url, reason=f"{reason}: mount its directory")
        if status is None or status.st_size == 0:
            require_unmarked(self.path, mark.load(self.path))
            if not create:
                raise errors.StoreNotFound(url=self.url)
            create_file(self.path)
            return
        found = self._application_id() if status.st_size >= _PAGE_BYTES_MIN else None
        if found is None:
            raise errors.UnknownUrl(url=self.url, reason="it is not a SQLite database")
        if found != APPLICATION_ID:
            raise errors.UnknownUrl(url=self.url, reason=f"it is a database of another program ({found:#x})")

    def _application_id(self) -> int | None:
        """Which program the database belongs to, read without a lock and without creating a file next to it.

        The main file may be a mixture of old and new pages, while a process checkpoints its write-ahead log or after it
        was killed in between. So only the header is read, and its number of pages is not trusted.
        """
        connection = connect(self.path, mode="ro&immutable=1", settings=("PRAGMA writable_schema = ON",))
        try:
            return int(connection.execute("PRAGMA application_id").fetchone()[0])
        except sqlite3.DatabaseError as problem:
            if translate.code_of(problem) != sqlite3.SQLITE_NOTADB:
                raise
            return None
        finally:
            connection.close()

    def _set_up(self, connection: sqlite3.Connection, locks: OpenLocks) -> None:
        found = self._version(connection, new=True)
        self._is_new = found == 0
        if self._is_new:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
        enter_wal(connection, busy_ms=self._busy_ms)
        if 0 < found < migrations.latest():
            damage = survey.damage_in(connection, newest=False)
            if damage is None and not migrations.is_unchanged(connection):
                damage = "its tables, indexes, triggers or views are not those of that format"
            if damage is not None:
                raise _not_migrated(found, damage)
        if found < migrations.latest() and locks.alone:
            self._mark_open(connection, locks)
        taken = migrations.migrate(connection, profile=self._profile, clock=self._clock)
        if found and taken:
            self._recovered.append(f"migrated from format {found} to {taken[-1].number}")

    def _mark_open(self, connection: sqlite3.Connection, locks: OpenLocks) -> None:
        """If there is a mark, note in it that the store is open, before a migration writes to its write-ahead log."""
        marked = mark.load(self.path)
        if marked is not None and is_marked(connection, marked):
            locks.mark.begin(marked.store_id, marked.head)

    def _version(self, connection: sqlite3.Connection, *, new: bool = False) -> int:
        found = migrations.version_of(connection)
        if found == 0 and not new:
            raise errors.StoreNotFound(url=self.url)  # creating it was interrupted: it has no event
        migrations.require_known(found, path=self.path)
        return found

    def _opened(self, connection: sqlite3.Connection, inspected: OpeningInspection) -> OpenedStore:
        store_id, profile = survey.identity(connection)
        return OpenedStore(self.path, None, store_id, profile, inspected, (*inspected.recovered, *self._recovered))

    def _checkpoint(self, writer: sqlite3.Connection) -> None:
        """Checkpoint the replayed log into the main file and sync it: a commit may be written but not synced yet."""
        with suppress(sqlite3.OperationalError):  # another handle reads; then it is checkpointed later
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as problem:
            raise translate.of_read(problem, path=self.path, waited_ms=self._busy_ms) from problem
        except UnicodeDecodeError as problem:
            raise errors.Damaged(first=0, last=0, reason=f"a text is not what was written: {problem}") from problem
        except OSError as problem:
            raise errors.ReadFailed(path=self.path, reason=str(problem)) from problem


def _not_migrated(found: int, damage: str, lost: Hole | None = None) -> errors.Damaged:
    first, last = (lost.first, lost.last) if lost is not None else (0, 0)
    todo = "replace it with a complete copy, or remove what does not belong to it"
    return errors.Damaged(first=first, last=last, reason=f"not migrated from format {found}: {damage}; {todo}")
