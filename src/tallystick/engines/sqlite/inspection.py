"""What `tally verify` checks in the tables, and what `tally doctor` shows of the file."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from tallystick.engines.sqlite import migrations, statements
from tallystick.engines.sqlite.mark import StoreMark
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.tables import schema, translate
from tallystick.store import leases
from tallystick.store.events import Problem

DATABASE, MARK = "database", "mark"


def check(
    connection: sqlite3.Connection, progress: Callable[[int], None], marked: StoreMark | None = None
) -> Iterator[Problem]:
    """Everything that is wrong with the database and its schema, and every contradiction of its tables and the mark."""
    parts = (_database, _schema, _heads, _orders, _scopes, _tags, _positions, _cuts, _erasures, _snapshots)
    for done, part in enumerate(parts):
        progress(done)
        try:
            yield from part(connection)
        except sqlite3.DatabaseError as problem:
            if not translate.is_damage(problem) and translate.code_of(problem) != sqlite3.SQLITE_ERROR:
                raise
            yield Problem(DATABASE, str(problem))  # an SQLITE_ERROR: meta that is no longer JSON, say
        except (TypeError, ValueError, AttributeError, OverflowError) as problem:
            yield Problem(DATABASE, f"a value is not of the type that was written: {problem}")
    if marked is not None:
        yield from _marked(connection, marked)


def _marked(connection: sqlite3.Connection, marked: StoreMark) -> Iterator[Problem]:
    """The log has every position that was acknowledged."""
    store_id, _ = connection.execute(statements.named("identity")).fetchone()
    head = SqliteView(connection).head()
    if store_id == marked.store_id and head < marked.head:
        yield Problem(MARK, f"positions {head + 1} to {marked.head} were acknowledged, and are missing", head + 1)


def _database(connection: sqlite3.Connection) -> Iterator[Problem]:
    for (line,) in connection.execute("PRAGMA integrity_check"):
        if line != "ok":
            yield Problem(DATABASE, str(line))


def _schema(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Every table, index, trigger and view must be there, word for word as this version creates it."""
    found_version, known = migrations.version_of(connection), migrations.latest()
    if found_version != known:
        yield Problem("schema", f"the format is {found_version}, not {known}")
    for name, what in schema.differences(schema.definitions(connection), migrations.expected_schema()):
        yield Problem("schema", f"{name} {what}")


def _heads(connection: sqlite3.Connection) -> Iterator[Problem]:
    for stream, recorded, actual in connection.execute(statements.named("check_heads")):
        reason = f"its events end at seq {actual or 0}, its recorded end is {recorded}"
        yield Problem("head", reason if actual != recorded else "its recorded link differs", 0, stream, recorded)


def _orders(connection: sqlite3.Connection) -> Iterator[Problem]:
    for stream, position, reason in connection.execute(statements.named("check_orders")):
        yield Problem("order", reason, position, stream)


def _scopes(connection: sqlite3.Connection) -> Iterator[Problem]:
    for position, stream, seq in connection.execute(statements.named("check_scopes")):
        yield Problem("scope", "its org, app or env is not what its meta says", position, stream, seq)


def _tags(connection: sqlite3.Connection) -> Iterator[Problem]:
    for position, stream, seq, reason in connection.execute(statements.named("check_tags")):
        yield Problem("tags", reason, position, stream, seq)


def _positions(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Every position up to the counter has an event, was pruned, or was skipped."""
    head = SqliteView(connection).head()
    events, pruned, cut, last, skipped = connection.execute(statements.named("count_positions")).fetchone()
    if last > head:
        yield Problem("sequence", f"the last position is {last}, but the counter is at {head}", last)
    elif events + pruned + skipped != head:
        reason = f"{head} positions were assigned, but there are {events} events and {pruned} were pruned"
        yield Problem("sequence", reason)
    if pruned != cut:
        yield Problem("cut", f"{pruned} events are recorded as pruned, but the cuts say {cut}")


def _cuts(connection: sqlite3.Connection) -> Iterator[Problem]:
    for stream, through, reason in connection.execute(statements.named("check_cuts")):
        yield Problem("cut", reason, 0, stream, through)


def _erasures(connection: sqlite3.Connection) -> Iterator[Problem]:
    for position, stream, seq, reason in connection.execute(statements.named("check_erasures")):
        yield Problem("erasure", reason, position, stream, seq)


def _snapshots(connection: sqlite3.Connection) -> Iterator[Problem]:
    for stream, seq, reason in connection.execute(statements.named("check_snapshots")):
        yield Problem("snapshot", reason, 0, stream, seq)


def facts(connection: sqlite3.Connection, path: str) -> dict[str, Any]:
    """Sizes, versions and who writes."""
    writers = [leases.Owner(*row) for row in connection.execute(statements.named("list_writers"))]
    return {
        "path": path,
        "sqlite": sqlite3.sqlite_version,
        "format": migrations.version_of(connection),
        "events_head": SqliteView(connection).head(),
        "streams": connection.execute("SELECT count(*) FROM streams").fetchone()[0],
        "floor": SqliteView(connection).floor(),
        "erasures": connection.execute("SELECT count(*) FROM erasures").fetchone()[0],
        "erasures_to_sweep": connection.execute(statements.named("unswept_erasures")).fetchone()[0],
        "snapshots": connection.execute("SELECT count(*) FROM snapshots").fetchone()[0],
        "log_bytes": _used_bytes(connection),
        "file_bytes": os.path.getsize(path),
        "wal_bytes": os.path.getsize(f"{path}-wal") if os.path.exists(f"{path}-wal") else 0,
        "page_bytes": connection.execute("PRAGMA page_size").fetchone()[0],
        "pages": connection.execute("PRAGMA page_count").fetchone()[0],
        "pages_free": connection.execute("PRAGMA freelist_count").fetchone()[0],
        "free_bytes": shutil.disk_usage(os.path.dirname(path)).free,
        "writers": [str(owner) for owner in writers if not leases.is_dead(owner)],
    }


def _used_bytes(connection: sqlite3.Connection) -> int:
    """The bytes of all pages but free ones, in the file or still in the write-ahead log."""
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    free = connection.execute("PRAGMA freelist_count").fetchone()[0]
    return int((pages - free) * connection.execute("PRAGMA page_size").fetchone()[0])
