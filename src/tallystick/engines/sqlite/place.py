"""The file of a store: whether it is ours, made if it may be, brought to the current format, and looked over.

`application_id` is written before anything else, and before the write-ahead log exists: so it stands in the main file
from the first byte on, and a file can be recognised without locking, replaying or changing it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from tallystick import errors
from tallystick.engines.sqlite import authorizer, migrations, statements, survey
from tallystick.engines.tables import translate
from tallystick.engines.tables.connection import connect, create_file, enter_wal
from tallystick.store import leases

APPLICATION_ID = 0x54414C59  # "TALY"
_PAGE_BYTES_MIN = 512  # SQLite takes anything shorter for an empty database
SQLITE_NEEDED = (3, 37, 0)  # STRICT tables


class Opened(msgspec.Struct):
    """A store that was opened. Without a writer it can only be read; `damage` says why, if that was not asked for."""

    path: str
    writer: sqlite3.Connection | None
    store_id: bytes
    profile: str
    damage: str | None
    recovered: tuple[str, ...]


class Opening:
    """How a place is to be opened."""

    def __init__(self, place: str, *, profile: str | None, clock: Callable[[], int], busy_ms: int) -> None:
        self.url = f"sqlite:{place}"
        self.path = os.path.realpath(place)
        self._profile = profile or "plain"
        self._clock = clock
        self._busy_ms = busy_ms
        self._recovered: list[str] = []

    def for_reading(self) -> Opened:
        """Open what is there; nothing is made, migrated or repaired."""
        with self._translated():
            self._require_ours(create=False)
            left_bytes = self._left_bytes()
            connection = connect(self.path, mode="ro", busy_ms=self._busy_ms)
            try:
                self.require_current(connection)
                return self._opened(connection, None, left_bytes)
            finally:
                connection.close()

    def for_writing(self, *, create: bool) -> Opened:
        """Open, make or migrate; a damaged store comes back without a writer."""
        with self._translated():
            self._require_ours(create=create)
            left_bytes = self._left_bytes()
            connection = connect(self.path, mode="rw", busy_ms=self._busy_ms)
            try:
                self._set_up(connection)
                opened = self._opened(connection, connection, left_bytes)
                if opened.writer is None:
                    connection.close()
                else:
                    authorizer.allow_appends(connection)
                return opened
            except BaseException:
                connection.close()
                raise

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
        if status is None or status.st_size == 0:
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

    def _left_bytes(self) -> int:
        """The size of a write-ahead log that is there before we open: a handle is open, or did not close."""
        try:
            return os.path.getsize(f"{self.path}-wal")
        except FileNotFoundError:
            return 0

    def _set_up(self, connection: sqlite3.Connection) -> None:
        found = self._version(connection, new=True)
        if found == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
        enter_wal(connection, busy_ms=self._busy_ms)
        if 0 < found < migrations.latest() and (damage := survey.damage_in(connection, newest=False)):
            raise errors.Damaged(first=0, last=0, reason=f"not migrated from format {found}: {damage}")
        taken = migrations.migrate(connection, profile=self._profile, clock=self._clock)
        if found and taken:
            self._recovered.append(f"migrated from format {found} to {taken[-1].number}")

    def _version(self, connection: sqlite3.Connection, *, new: bool = False) -> int:
        found = migrations.version_of(connection)
        if found == 0 and not new:
            raise errors.StoreNotFound(url=self.url)  # its making was interrupted: there is no event in it
        if found > migrations.latest():
            raise errors.NewerFormat(path=self.path, found=found, known=migrations.latest())
        return found

    def _opened(self, connection: sqlite3.Connection, writer: sqlite3.Connection | None, left_bytes: int) -> Opened:
        damage = None
        if left_bytes and not self._has_live_writer(connection):
            self._recovered.append(f"a writer did not close: its write-ahead log ({left_bytes} bytes) was replayed")
            damage = survey.damage_in(connection)
            if writer is not None and damage is None:
                self._bring_home(writer)
        store_id, profile = connection.execute(statements.named("identity")).fetchone()
        return Opened(self.path, None if damage else writer, store_id, profile, damage, tuple(self._recovered))

    def _has_live_writer(self, connection: sqlite3.Connection) -> bool:
        rows = connection.execute(statements.named("list_writers")).fetchall()
        return any(not leases.is_dead(leases.Owner(*row)) for row in rows)

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
