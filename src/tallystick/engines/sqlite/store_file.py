"""The file of a store: whether it is ours, made if it may be, brought to the current format, and looked over.

`application_id` is written before anything else, and before the write-ahead log exists: so it stands in the main file
from the first byte on, and a file can be recognised without locking, replaying or changing it.
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
from tallystick.engines.sqlite.locks import Presence
from tallystick.engines.sqlite.opening_inspection import READING, Finding, is_marked, keep_aside, look, require_unmarked
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.tables import translate
from tallystick.engines.tables.connection import connect, create_file, enter_wal
from tallystick.store.page import Hole

APPLICATION_ID = 0x54414C59  # "TALY"
_FOR_ITSELF = "PRAGMA locking_mode = EXCLUSIVE"
_PAGE_BYTES_MIN = 512  # SQLite takes anything shorter for an empty database
SQLITE_NEEDED = (3, 37, 0)  # STRICT tables


class Opened(msgspec.Struct):
    """A store that was opened. Without a writer it can only be read; the finding says if that is for damage."""

    path: str
    writer: sqlite3.Connection | None
    store_id: bytes
    profile: str
    finding: Finding
    recovered: tuple[str, ...]
    presence: Presence | None = None


class Opening:
    """How a place is to be opened."""

    def __init__(self, place: str, *, profile: str | None, clock: Callable[[], int], busy_ms: int) -> None:
        self.url = f"sqlite:{place}"
        self.path = os.path.realpath(place)
        self._profile = profile or "plain"
        self._clock = clock
        self._busy_ms = busy_ms
        self._recovered: list[str] = []
        self._is_new = False

    def for_reading(self) -> Opened:
        """Open what is there; nothing is made, migrated or repaired."""
        with self._translated():
            self._require_ours(create=False)
            presence = Presence(self.path, busy_ms=self._busy_ms)
            try:
                return self._opened_for_reading(self._looked(presence))
            finally:
                presence.leave()

    def _looked(self, presence: Presence) -> Finding:
        """Look for a reader, which holds nobody up: what it sees of a writer that came and went is not damage.

        So damage counts only if it is found again while nobody can come.
        """
        presence.look()
        if not presence.alone:
            return Finding()
        with suppress(errors.Damaged, sqlite3.DatabaseError):
            finding = look(self.path, busy_ms=self._busy_ms)
            if finding.damage is None:
                return finding
        with presence.apart():
            return look(self.path, busy_ms=self._busy_ms) if presence.alone else Finding()

    def for_writing(self, *, create: bool) -> Opened:
        """Open, make or migrate; a damaged store comes back without a writer, and nothing of it was touched."""
        with self._translated():
            self._require_ours(create=create)
            presence = Presence(self.path, busy_ms=self._busy_ms)
            try:
                presence.enter()
                finding = look(self.path, busy_ms=self._busy_ms) if presence.alone else Finding()
                if finding.damage is None:
                    return self._opened_for_writing(finding, presence)
            except BaseException:
                presence.leave()
                raise
            presence.leave()
            return self._opened_for_reading(finding)

    def _opened_for_reading(self, finding: Finding) -> Opened:
        with closing(connect(self.path, mode=finding.mode, busy_ms=self._busy_ms)) as connection:
            found = self._version(connection)
            if found < migrations.latest() and finding.damage is not None:
                raise _not_migrated(found, finding.damage, finding.lost)
            self.require_current(connection)
            return self._opened(connection, finding)

    def _opened_for_writing(self, finding: Finding, presence: Presence) -> Opened:
        if finding.left.is_torn:
            self._recovered.append(keep_aside(self.path, finding.left, time_ns=self._clock()))
        self._require_nobody_older()
        connection = connect(self.path, mode="rw", busy_ms=self._busy_ms)
        try:
            self._set_up(connection, presence)
            if presence.alone:
                self._begin(connection, finding, presence)
            authorizer.allow_appends(connection)
            presence.settle()
            opened = self._opened(connection, finding)
            opened.writer, opened.presence = connection, presence
            return opened
        except BaseException:
            connection.close()
            raise

    def _require_nobody_older(self) -> None:
        """Refuse to upgrade a store that anybody has open: older versions do not have all of our locks.

        SQLite lets a connection have a file for itself only if no other one is open to it, in any process.
        """
        with closing(connect(self.path, mode=READING, busy_ms=self._busy_ms)) as connection:
            if not 0 < migrations.version_of(connection) < migrations.latest():
                return
        with closing(connect(self.path, mode="rw", busy_ms=self._busy_ms, settings=(_FOR_ITSELF,))) as connection:
            try:
                migrations.version_of(connection)
            except sqlite3.OperationalError as problem:
                if not translate.is_busy(problem):
                    raise
                owner = "a process of an older version, or by one that reads it, and it has to be upgraded"
                raise errors.StoreLocked(path=self.path, owner=owner) from problem

    def _begin(self, connection: sqlite3.Connection, finding: Finding, presence: Presence) -> None:
        """Begin where nobody else has the store open: what others held is free, and the mark says so."""
        if finding.is_unclean or self._is_new:
            self._bring_home(connection)  # of a new store too: without its write-ahead log it is known by its identity
        presence.mark.begin(survey.identity(connection)[0], SqliteView(connection).head())
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
        """Refuse what is no store."""
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
            reason = "the file alone is mounted here, so that its write-ahead log would be seen under this name only"
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
        """Whose database it is, asked without a lock or a file beside it, for it may not be ours.

        The main file alone may be a mixture of old and new pages, while its write-ahead log is brought home or when the
        process that did it was killed: only its header is asked, and not believed in how many pages there are.
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

    def _set_up(self, connection: sqlite3.Connection, presence: Presence) -> None:
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
        if found < migrations.latest() and presence.alone:
            self._mark_open(connection, presence)
        taken = migrations.migrate(connection, profile=self._profile, clock=self._clock)
        if found and taken:
            self._recovered.append(f"migrated from format {found} to {taken[-1].number}")

    def _mark_open(self, connection: sqlite3.Connection, presence: Presence) -> None:
        """Note in a mark that there is that the store is open, before a migration writes to its write-ahead log."""
        marked = mark.load(self.path)
        if marked is not None and is_marked(connection, marked):
            presence.mark.begin(marked.store_id, marked.head)

    def _version(self, connection: sqlite3.Connection, *, new: bool = False) -> int:
        found = migrations.version_of(connection)
        if found == 0 and not new:
            raise errors.StoreNotFound(url=self.url)  # its making was interrupted: there is no event in it
        migrations.require_known(found, path=self.path)
        return found

    def _opened(self, connection: sqlite3.Connection, finding: Finding) -> Opened:
        store_id, profile = survey.identity(connection)
        return Opened(self.path, None, store_id, profile, finding, (*finding.recovered, *self._recovered))

    def _bring_home(self, writer: sqlite3.Connection) -> None:
        """Copy what was replayed into the main file and sync it: a commit may have been written and not yet synced."""
        with suppress(sqlite3.OperationalError):  # another handle came and reads; then it is brought home later
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
    todo = "put a whole copy in its place, or remove what does not belong to it"
    return errors.Damaged(first=first, last=last, reason=f"not migrated from format {found}: {damage}; {todo}")
