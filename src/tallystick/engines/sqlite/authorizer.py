"""What the appending connection may do: read, append, and move what moves forward. SQLite asks this once a statement.

The triggers protect the tables against every connection; this protects the triggers, against a statement smuggled
into our own. Maintenance (prune, erase) does not pass here: it gets a connection and an authorizer of its own.
Whoever can write the file can still rewrite it: that shows only in the chain, held against a witness outside.
"""

from __future__ import annotations

import sqlite3

_READS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_TRANSACTION,
    }
)
_GROWING = frozenset({"streams", "sources", "leases", "checkpoints", "views", "view_rows", "dead_letters"})
_FILLED_BY_RUNS = frozenset({"runs", "sessions", "jobs", "job_attempts", "nodes"})
_WRITES = {
    sqlite3.SQLITE_INSERT: frozenset({"events", "snapshots", "writers"}) | _GROWING | _FILLED_BY_RUNS,
    sqlite3.SQLITE_UPDATE: _GROWING | _FILLED_BY_RUNS,
    sqlite3.SQLITE_DELETE: frozenset({"writers", "checkpoints", "views", "view_rows", "dead_letters"}),
    sqlite3.SQLITE_PRAGMA: frozenset({"wal_checkpoint", "busy_timeout"}),
}
_NOTHING: frozenset[str] = frozenset()


def allow_appends(connection: sqlite3.Connection) -> None:
    """From now on the connection can append, and nothing else. Statements prepared before are prepared again."""
    connection.set_authorizer(_judge)


def _judge(action: int, subject: str | None, *_: str | None) -> int:
    if action in _READS or subject in _WRITES.get(action, _NOTHING):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
