"""Refilling what a damaged SQLite log has lost from a donor, by building the whole file again next to it.

First a new file is filled: the schema, events as `merged_log.py` checks them, every other table row by row. It is
verified like any store. Only then is the damaged file copied, page by page as it is, to `<file>.damaged-<time>`, and
overwritten with the new one in a single transaction of SQLite: an interruption leaves the old file or the new one. The
file is locked against every other process from the first inspection to the end.

Events, streams and indexes can be built again. The rows of the other tables are nowhere else, so a damaged page there
is refused: then a copy of the store has to replace it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tallystick import errors
from tallystick.engines.sqlite import commit_rows, inspection, kept_files, migrations, statements, survey
from tallystick.engines.sqlite.engine import open_sqlite
from tallystick.engines.sqlite.locks import OpenLocks
from tallystick.engines.sqlite.mark import StoreMarkFile
from tallystick.engines.sqlite.merged_log import MergedLog
from tallystick.engines.sqlite.opening_inspection import IMMUTABLE, inspect
from tallystick.engines.sqlite.store_file import APPLICATION_ID, StoreFile
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.tables import translate
from tallystick.engines.tables.connection import create_file
from tallystick.engines.tables.database import translating
from tallystick.store.page import Hole
from tallystick.store.refill import Donor, Refilled
from tallystick.store.verify import examine

_WAIT_S = 1.0
COPIED = (
    "store",
    "sources",
    "org_sources",
    "leases",
    "checkpoints",
    "cuts",
    "pruned",
    "pruned_tags",
    "skipped",
    "erasures",
    "sweeps",
    "snapshots",
    "commands",
    "command_ranges",
    "views",
    "view_rows",
    "dead_letters",
    "kept_counts",
    "runs",
    "sessions",
    "nodes",
    "jobs",
    "job_attempts",
    "sqlite_sequence",
)
REBUILT = ("events", "event_tags", "streams", "writers", "batch_rows")
PLACES = {width: ", ".join("?" * width) for width in range(1, 65)}
_AT_ONCE = 500


def refill_sqlite(place: str, donor: Donor, *, clock: Callable[[], int], progress: Callable[[int], None]) -> Refilled:
    """Refill every damaged range of a log that nobody has open: all of them or none."""
    file = StoreFile(place, profile=None, clock=clock, busy_ms=int(_WAIT_S * 1000))
    file.require_ours()
    locks = OpenLocks(file.path, busy_ms=int(_WAIT_S * 1000))
    try:
        locks.enter()
        if not locks.alone:
            reason = "another process has the damaged store open: close it first"
            raise errors.RefillRefused(url=file.url, source=donor.name, reason=reason)
        _require_whole_log(file, donor)
        return _refilled(file, locks.mark, donor, clock, progress)
    finally:
        locks.leave()


def _require_whole_log(file: StoreFile, donor: Donor) -> None:
    """Refuse if commits were lost: only a complete copy has their rows. The inspection replays nothing."""
    with translating(file.path, int(_WAIT_S * 1000)):
        inspected = inspect(file.path, busy_ms=int(_WAIT_S * 1000))
    if inspected.lost is not None or inspected.log.damage is not None or inspected.mode == IMMUTABLE:
        reason = f"{inspected.damage}: replace it with a complete copy, or remove what does not belong to it"
        raise errors.RefillRefused(url=file.url, source=donor.name, reason=reason)


def _refilled(
    file: StoreFile, marking: StoreMarkFile, donor: Donor, clock: Callable[[], int], progress: Callable[[int], None]
) -> Refilled:
    with _locked(file.path, donor, file.url) as damaged:
        try:
            file.require_current(damaged)
            merged = MergedLog(damaged, donor, url=file.url, progress=progress)
            if not merged.wanted and not list(inspection.check(damaged, lambda done: None)):
                return Refilled(donor.name)
            return _Replacement(file.path, marking, damaged, merged, clock).run(donor)
        except sqlite3.DatabaseError as problem:
            if not translate.is_damage(problem):
                raise
            reason = f"more than events is damaged ({problem}): replace the store with a complete copy"
            raise errors.RefillRefused(url=file.url, source=donor.name, reason=reason) from problem


@contextmanager
def _locked(path: str, donor: Donor, url: str) -> Iterator[sqlite3.Connection]:
    """The file, locked against every other process while the connection is open."""
    connection = sqlite3.connect(f"{Path(path).as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=_WAIT_S)
    with closing(connection):
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # first of all: later it would share memory
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.OperationalError as problem:
            if not translate.is_busy(problem):
                raise
            reason = "another process has the damaged store open: close it first"
            raise errors.RefillRefused(url=url, source=donor.name, reason=reason) from problem
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        yield connection


class _Replacement:
    """Builds the new file and replaces the damaged one with it."""

    def __init__(
        self,
        path: str,
        marking: StoreMarkFile,
        damaged: sqlite3.Connection,
        merged: MergedLog,
        clock: Callable[[], int],
    ) -> None:
        self._path = path
        self._marking = marking
        self._damaged = damaged
        self._merged = merged
        self._clock = clock
        self._given = 0

    def run(self, donor: Donor) -> Refilled:
        """Build the new file, verify it, keep the damaged one, and overwrite it."""
        fresh = f"{self._path}.refilling"
        try:
            self._make(fresh)
            self._require_sound(fresh)
            kept = self._keep()
            self._replace(fresh)
        finally:
            _remove(fresh)
        ranges = tuple(Hole(hole.first, hole.last, hole.reason) for hole in self._merged.wanted)
        done = (f"kept the damaged file as {kept}", "built the file again, with its schema and indexes")
        return Refilled(donor.name, ranges, self._given, (os.path.basename(self._path),), done)

    def _replace(self, fresh: str) -> None:
        """Overwrite the damaged file. Meanwhile the mark says that the store is open and may have a write-ahead log."""
        with closing(sqlite3.connect(fresh)) as source:
            store_id, head = survey.identity(source)[0], SqliteView(source).head()
            self._marking.begin(store_id, head)
            source.backup(self._damaged)
        self._damaged.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._marking.finish(store_id, head)

    def _make(self, fresh: str) -> None:
        _remove(fresh)
        create_file(fresh)
        with closing(sqlite3.connect(fresh, isolation_level=None)) as new:
            page_bytes = self._damaged.execute("PRAGMA page_size").fetchone()[0]
            new.execute(f"PRAGMA page_size = {page_bytes:d}")
            new.execute("PRAGMA journal_mode = OFF")  # it is thrown away unless it is complete
            new.execute("PRAGMA synchronous = OFF")
            new.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
            new.execute(f"PRAGMA user_version = {migrations.latest():d}")
            new.execute("BEGIN")
            for statement in migrations.expected_schema("table").values():
                new.execute(statement)
            self._fill_events(new)
            for number in range(len(COPIED)):
                self._copy(new, number)
            new.execute(statements.named("fill_tags"))
            for kind in ("index", "view", "trigger"):  # after the rows, which triggers would refuse
                for statement in migrations.expected_schema(kind).values():
                    new.execute(statement)
            new.execute("COMMIT")

    def _fill_events(self, new: sqlite3.Connection) -> None:
        for event, recorded, is_given in self._merged.events():
            row = commit_rows.row_of(event, recorded)
            new.execute(statements.named("insert_event"), row)
            self._given += is_given
        heads = self._merged.heads
        new.executemany(
            statements.named("move_head"), [(name, head.seq, head.link, head.org) for name, head in heads.items()]
        )

    def _copy(self, new: sqlite3.Connection, number: int) -> None:
        """Copy all rows of a table as they are."""
        rows = self._damaged.execute(f"SELECT * FROM {COPIED[number]}")
        width = len(rows.description)
        new.execute(f"DELETE FROM {COPIED[number]}")
        while some := rows.fetchmany(_AT_ONCE):
            new.executemany(f"INSERT INTO {COPIED[number]} VALUES ({PLACES[width]})", some)

    def _require_sound(self, fresh: str) -> None:
        log = open_sqlite(fresh, readonly=True, create=False, profile=None, clock=self._clock)
        with closing(log):
            for problem in examine(log).problems:
                if problem.what != "snapshot":  # bodies are restored after the events
                    raise self._merged.refused(f"the log would not verify with it: {problem.reason}")

    def _keep(self) -> str:
        """Copy the damaged file page by page. SQLite does not interpret the pages."""
        kept = kept_files.damaged_file(self._path, self._clock())
        create_file(kept)
        with closing(sqlite3.connect(kept)) as copy:
            self._damaged.backup(copy)
        return os.path.basename(kept)


def _remove(path: str) -> None:
    for name in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        with suppress(FileNotFoundError):
            os.unlink(name)
