"""What each connection may do. SQLite asks once per statement.

The triggers protect the tables against every connection. The authorizer protects the triggers, against a statement
smuggled into our own. The appending connection reads, appends, and updates only what moves forward. The maintaining one
may also prune, erase a payload and drop snapshots and commands, as far as the triggers allow.
Anyone who can write the file can still rewrite it: only the chain shows that, compared with a witness elsewhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeAlias

from tallystick.engines.sqlite import migrations

_READS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_TRANSACTION,
    }
)
_GROWING = frozenset(
    {"streams", "sources", "org_sources", "leases", "checkpoints", "views", "view_rows", "batch_rows", "dead_letters"}
    | {"kept_counts"}
)
_FILLED_BY_RUNS = frozenset({"runs", "sessions", "jobs", "job_attempts", "nodes"})
_COMMANDS = frozenset({"commands", "command_ranges"})
_APPENDS = {
    sqlite3.SQLITE_INSERT: frozenset({"events", "event_tags", "writers"}) | _COMMANDS | _GROWING | _FILLED_BY_RUNS,
    sqlite3.SQLITE_UPDATE: _GROWING | _FILLED_BY_RUNS,
    sqlite3.SQLITE_DELETE: frozenset({"writers", "checkpoints", "views", "view_rows", "batch_rows", "dead_letters"}),
    sqlite3.SQLITE_PRAGMA: frozenset({"wal_checkpoint", "busy_timeout"}),
}
_MAINTENANCE = _APPENDS | {
    sqlite3.SQLITE_INSERT: _APPENDS[sqlite3.SQLITE_INSERT]
    | {"cuts", "pruned", "pruned_tags", "skipped", "erasures", "snapshots"},
    sqlite3.SQLITE_DELETE: _APPENDS[sqlite3.SQLITE_DELETE] | {"events", "snapshots"} | _COMMANDS,
}
_NOTHING: frozenset[str] = frozenset()
_Judge: TypeAlias = "Callable[..., int]"


def allow_appends(connection: sqlite3.Connection) -> None:
    """Let the connection append, and nothing else. Statements that were prepared before are prepared again."""
    connection.set_authorizer(_within_our_triggers(_judge_append))


def allow_maintenance(connection: sqlite3.Connection) -> None:
    """Let the connection append, prune, erase, and drop snapshots and commands, and nothing else."""
    connection.set_authorizer(_within_our_triggers(_judge_maintenance))


def _within_our_triggers(judge: _Judge) -> _Judge:
    """Deny statements of triggers and views that are not in the schema: they could leave out what we insert."""
    ours = {None, *migrations.expected_schema("trigger"), *migrations.expected_schema("view")}

    def judged(action: int, subject: str | None, *more: str | None) -> int:
        return judge(action, subject, *more) if more[-1] in ours else sqlite3.SQLITE_DENY

    return judged


def _judge_append(action: int, subject: str | None, *_: str | None) -> int:
    if action in _READS or subject in _APPENDS.get(action, _NOTHING):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _judge_maintenance(action: int, subject: str | None, column: str | None, *_: str | None) -> int:
    if action in _READS or subject in _MAINTENANCE.get(action, _NOTHING):
        return sqlite3.SQLITE_OK
    if (action, subject, column) == (sqlite3.SQLITE_UPDATE, "events", "payload"):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
