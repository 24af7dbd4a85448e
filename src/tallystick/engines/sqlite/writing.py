"""What a judged commit changes, as rows: events by the batch, what moved with them, and what maintenance does."""

from __future__ import annotations

import sqlite3
from functools import cache
from itertools import chain
from typing import TypeAlias

import msgspec

from tallystick.engines.sqlite import commands, maintaining, statements
from tallystick.event.model import Row
from tallystick.store import leases
from tallystick.store.ledger import Ledger

_EMPTY = b"{}"
_ROWS_AT_ONCE = (128, 16)  # SQLite sets up and ends a statement once for all of its rows: a third of the time
_Beside: TypeAlias = "tuple[int, str | None, str | None, str | None]"


class _Scope(msgspec.Struct, gc=False):
    """The part of meta that readers select by."""

    org: str | None = None
    app: str | None = None
    env: str | None = None


_scope = msgspec.json.Decoder(_Scope)


def write(connection: sqlite3.Connection, ledger: Ledger, *, recorded: int) -> None:
    """Write everything that passed. Nothing is on disk before the transaction commits."""
    if ledger.rows:
        _insert(connection, ledger.rows, recorded)
        heads = [(stream, head.seq, head.link, head.org) for stream, head in ledger.heads.items()]
        connection.executemany(statements.named("move_head"), heads)
        connection.executemany(statements.named("move_source"), list(ledger.sources.items()))
    connection.executemany(statements.named("put_lease"), [_lease_row(lease) for lease in ledger.leases])
    commands.insert(connection, ledger.commands)
    if ledger.maintenance is not None:
        maintaining.maintain(connection, ledger.maintenance, ledger.rows)


def _insert(connection: sqlite3.Connection, rows: list[Row], recorded: int) -> None:
    beside = {meta: _beside(meta, recorded) for meta in {row[8] for row in rows}}
    full = [row + beside[row[8]] for row in rows]
    at = 0
    for size in _ROWS_AT_ONCE:
        while len(full) - at >= size:
            connection.execute(_insertion(size), list(chain.from_iterable(full[at : at + size])))
            at += size
    connection.executemany(statements.named("insert_event"), full[at:])


@cache
def _insertion(rows: int) -> str:
    """The statement that inserts so many events."""
    head, values, row = statements.named("insert_event").rpartition("VALUES")
    return head + values + ",".join([row] * rows)


def _beside(meta: bytes, recorded: int) -> _Beside:
    """The columns that stand beside the envelope."""
    if meta == _EMPTY:
        return (recorded, None, None, None)
    scope = _scope.decode(meta)
    return (recorded, scope.org, scope.app, scope.env)


def size_of(ledger: Ledger | None) -> int:
    """The bytes of payload and meta in a commit, for the error that says there is no room for them."""
    return sum(len(row[7] or b"") + len(row[8]) for row in ledger.rows) if ledger else 0


def _lease_row(lease: leases.Lease) -> tuple[str, int, str | None, int | None, int | None, str | None]:
    owner = lease.owner
    if owner is None:
        return (lease.stream, lease.number, None, None, None, None)
    return (lease.stream, lease.number, owner.host, owner.pid, owner.started, owner.handle)
