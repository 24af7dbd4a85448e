"""Refilling what a damaged SQLite log has lost from a donor, by making the whole file again beside it.

First a new file is filled: schema from the migrations, events as `merging` checks them, every other table row by row.
It is verified like any store. Only then is the damaged file copied, page by page as it is, to `<file>.damaged-<time>`,
and overwritten with the new one in a single transaction of SQLite's: whenever that is interrupted, the file is the old
one or the new one. The file is locked against everybody from the first look to the end.

Events, streams and indexes can be made again. What stands in the other tables stands nowhere else, so a damaged page
there is refused: then a copy of the store has to take its place.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tallystick import errors
from tallystick.engines.sqlite import commit_rows, inspection, migrations, statements, survey
from tallystick.engines.sqlite import kept_files as aside
from tallystick.engines.sqlite.engine import open_sqlite
from tallystick.engines.sqlite.locks import Presence
from tallystick.engines.sqlite.mark import StoreMarkFile
from tallystick.engines.sqlite.merged_log import Merged
from tallystick.engines.sqlite.opening_inspection import ALONE, look
from tallystick.engines.sqlite.store_file import APPLICATION_ID, Opening
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.tables import translate
from tallystick.engines.tables.connection import create_file
from tallystick.engines.tables.database import translated
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
MADE_AGAIN = ("events", "streams", "writers", "batch_rows")
PLACES = {width: ", ".join("?" * width) for width in range(1, 65)}
_AT_ONCE = 500


def refill_sqlite(place: str, donor: Donor, *, clock: Callable[[], int], progress: Callable[[int], None]) -> Refilled:
    """Refill every damaged range of a log that nobody has open; all of them or none."""
    opening = Opening(place, profile=None, clock=clock, busy_ms=int(_WAIT_S * 1000))
    opening.require_ours()
    presence = Presence(opening.path, busy_ms=int(_WAIT_S * 1000))
    try:
        presence.enter()
        if not presence.alone:
            reason = "somebody has the damaged store open: close it first"
            raise errors.RefillRefused(url=opening.url, source=donor.name, reason=reason)
        _require_whole_log(opening, donor)
        return _refilled(opening, presence.mark, donor, clock, progress)
    finally:
        presence.leave()


def _require_whole_log(opening: Opening, donor: Donor) -> None:
    """Refuse where commits were lost: nobody has their rows but a copy of the whole. Nothing is replayed by looking."""
    with translated(opening.path, int(_WAIT_S * 1000)):
        finding = look(opening.path, busy_ms=int(_WAIT_S * 1000))
    if finding.lost is not None or finding.left.damage is not None or finding.mode == ALONE:
        reason = f"{finding.damage}: put a whole copy in its place, or remove what does not belong to it"
        raise errors.RefillRefused(url=opening.url, source=donor.name, reason=reason)


def _refilled(
    opening: Opening, marking: StoreMarkFile, donor: Donor, clock: Callable[[], int], progress: Callable[[int], None]
) -> Refilled:
    with _alone(opening.path, donor, opening.url) as damaged:
        try:
            opening.require_current(damaged)
            merged = Merged(damaged, donor, url=opening.url, progress=progress)
            if not merged.wanted and not list(inspection.check(damaged, lambda done: None)):
                return Refilled(donor.name)
            return _Refilling(opening.path, marking, damaged, merged, clock).run(donor)
        except sqlite3.DatabaseError as problem:
            if not translate.is_damage(problem):
                raise
            reason = f"more than events is damaged ({problem}): put a whole copy in its place"
            raise errors.RefillRefused(url=opening.url, source=donor.name, reason=reason) from problem


@contextmanager
def _alone(path: str, donor: Donor, url: str) -> Iterator[sqlite3.Connection]:
    """The file, locked against everybody else for as long as the connection is open."""
    connection = sqlite3.connect(f"{Path(path).as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=_WAIT_S)
    with closing(connection):
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # before anything else: later it would share memory
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.OperationalError as problem:
            if not translate.is_busy(problem):
                raise
            reason = "somebody has the damaged store open: close it first"
            raise errors.RefillRefused(url=url, source=donor.name, reason=reason) from problem
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        yield connection


class _Refilling:
    """The making of the new file, and its way into the old one's place."""

    def __init__(
        self, path: str, marking: StoreMarkFile, damaged: sqlite3.Connection, merged: Merged, clock: Callable[[], int]
    ) -> None:
        self._path = path
        self._marking = marking
        self._damaged = damaged
        self._merged = merged
        self._clock = clock
        self._given = 0

    def run(self, donor: Donor) -> Refilled:
        """Make the file, verify it, keep the damaged one, and put the new one in its place."""
        fresh = f"{self._path}.refilling"
        try:
            self._make(fresh)
            self._require_sound(fresh)
            kept = self._keep()
            self._replace(fresh)
        finally:
            _remove(fresh)
        ranges = tuple(Hole(hole.first, hole.last, hole.reason) for hole in self._merged.wanted)
        done = (f"kept the damaged file as {kept}", "made the file again, with its schema and indexes")
        return Refilled(donor.name, ranges, self._given, (os.path.basename(self._path),), done)

    def _replace(self, fresh: str) -> None:
        """Write the new file over the damaged one. The mark says that there is a write-ahead log for as long."""
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
            new.execute("PRAGMA journal_mode = OFF")  # it is thrown away unless it is whole
            new.execute("PRAGMA synchronous = OFF")
            new.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
            new.execute(f"PRAGMA user_version = {migrations.latest():d}")
            new.execute("BEGIN")
            for statement in migrations.expected_schema("table").values():
                new.execute(statement)
            self._fill_events(new)
            for number in range(len(COPIED)):
                self._copy(new, number)
            for kind in ("index", "view", "trigger"):  # after the rows, which triggers would hold against each other
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
        """All rows of a table, as they are."""
        rows = self._damaged.execute(f"SELECT * FROM {COPIED[number]}")
        width = len(rows.description)
        new.execute(f"DELETE FROM {COPIED[number]}")
        while some := rows.fetchmany(_AT_ONCE):
            new.executemany(f"INSERT INTO {COPIED[number]} VALUES ({PLACES[width]})", some)

    def _require_sound(self, fresh: str) -> None:
        log = open_sqlite(fresh, readonly=True, create=False, profile=None, clock=self._clock)
        with closing(log):
            for problem in examine(log).problems:
                if problem.what != "snapshot":  # bodies are put back once the events are there
                    raise self._merged.refused(f"the log would not be sound with it: {problem.reason}")

    def _keep(self) -> str:
        """A copy of the damaged file, page by page: SQLite reads none of them for what it says."""
        kept = aside.damaged(self._path, self._clock())
        create_file(kept)
        with closing(sqlite3.connect(kept)) as copy:
            self._damaged.backup(copy)
        return os.path.basename(kept)


def _remove(path: str) -> None:
    for name in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        with suppress(FileNotFoundError):
            os.unlink(name)
