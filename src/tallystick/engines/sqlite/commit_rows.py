"""Writes a commit that the ledger accepted: events in batches, the heads that they move, and maintenance."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, TypeAlias

import msgspec

from tallystick.engines.sqlite import commands, maintenance, postings, statements
from tallystick.event.model import Event, InRow, Row
from tallystick.store import leases
from tallystick.store.ledger import Ledger

_EMPTY = b"{}"
# Rows of one statement, which SQLite then sets up and ends once: it takes a third off the benchmark row
# `sqlite: batches of 1,000, everything on`. Single appends take the statement in `insert_event.sql`.
_ROWS_AT_ONCE = (128, 16)
_OWN = frozenset(
    {InRow.position, InRow.seq, InRow.id, InRow.payload, InRow.checksum, InRow.link}
)  # rarely or never equal in two rows
# Bound as bytearray: sqlite3 looks for an adapter of each bytes.
_BYTES = frozenset({InRow.id, InRow.payload, InRow.meta, InRow.checksum, InRow.link})
_SHARED, _RISING, _OWN_VALUE, _LEFT_OUT = "s", "r", "o", "-"  # how the values of a column change from row to row
_ScopeColumns: TypeAlias = "tuple[int, str | None, str | None, str | None]"


class _MetaScope(msgspec.Struct, gc=False):
    """The part of meta that readers select by."""

    org: str | None = None
    app: str | None = None
    env: str | None = None


_scope = msgspec.json.Decoder(_MetaScope)


def write(connection: sqlite3.Connection, ledger: Ledger, *, recorded: int) -> None:
    """Write everything that was accepted. Nothing is on disk before the transaction commits."""
    if ledger.rows:
        _insert(connection, ledger.rows, recorded)
        postings.insert(connection, postings.of_rows(ledger.rows))
        heads = [(stream, head.seq, head.link, head.org) for stream, head in ledger.heads.items()]
        connection.executemany(statements.named("move_head"), heads)
        numbers = [(org, source, seq) for (org, source), seq in ledger.sources.items()]
        connection.executemany(statements.named("move_source"), numbers)
    connection.executemany(statements.named("put_lease"), [_lease_row(lease) for lease in ledger.leases])
    commands.insert(connection, ledger.commands)
    if ledger.maintenance is not None:
        maintenance.maintain(connection, ledger.maintenance, ledger.rows)


def _insert(connection: sqlite3.Connection, rows: list[Row], recorded: int) -> None:
    at = 0
    for size in _ROWS_AT_ONCE:
        while len(rows) - at >= size:
            stored = connection.execute(*_insertion(rows[at : at + size], recorded)).rowcount
            statements.require_stored(size, stored, "events")
            at += size
    if rest := [row + _scope_columns(row[InRow.meta], recorded) for row in rows[at:]]:
        stored = connection.executemany(statements.named("insert_event"), rest).rowcount
        statements.require_stored(len(rest), stored, "events")


def _insertion(rows: list[Row], recorded: int) -> tuple[str, list[Any]]:
    """One statement for many rows, and its values.

    A value that all rows share is bound once, and a column that is NULL in all rows is left out: SQLite copies each row
    with every named column before it runs a trigger.
    """
    columns: list[Sequence[Any]] = [*zip(*rows, strict=True)]
    scopes = {meta: _scope_columns(meta, recorded) for meta in set(columns[InRow.meta])}
    columns += zip(*[scopes[meta] for meta in columns[InRow.meta]], strict=True)
    shape, shared, own = "", [], []
    for index, column in enumerate(columns):
        if index in _OWN or column.count(column[0]) != len(rows):
            rises = index == InRow.position or (index == InRow.seq and shape[InRow.stream] == _SHARED)
            shape += _RISING if rises else _OWN_VALUE
        else:
            shape += _LEFT_OUT if column[0] is None else _SHARED
        if shape[-1] == _OWN_VALUE:
            own.append([*map(bytearray, column)] if index in _BYTES else column)
        elif shape[-1] != _LEFT_OUT:
            shared.append(column[0])
    return _statement(shape, len(rows)), [*shared, *chain.from_iterable(zip(*own, strict=True))]


@lru_cache(maxsize=64)
def _statement(shape: str, rows: int) -> str:
    """The statement that inserts a number of events of one shape: shared values come first, then those of each row."""
    columns, before_values, _ = statements.named("insert_event").partition("VALUES")
    head, _, names = columns.partition("(")
    given = [name for name, letter in zip(names.strip(" )\n").split(","), shape, strict=True) if letter != _LEFT_OUT]
    shape = shape.replace(_LEFT_OUT, "")
    own = shape.count(_OWN_VALUE)
    shared = len(shape) - own
    values = ",".join(_placeholders(shape, shared + row * own, row) for row in range(rows))
    return " ".join([head, f"({','.join(given)})", before_values, values])


def _placeholders(shape: str, before: int, row: int) -> str:
    """The placeholders of one row, whose own values come after `before` others."""
    places = []
    shared = 0
    for letter in shape:
        if letter == _OWN_VALUE:
            before += 1
            places.append(f"?{before}")
        else:
            shared += 1
            places.append(f"?{shared}+{row}" if letter == _RISING else f"?{shared}")
    return f"({','.join(places)})"


def row_of(event: Event, recorded: int) -> tuple[Any, ...]:
    """An event as `insert_event` takes it."""
    return (*msgspec.structs.astuple(event), *_scope_columns(event.meta, recorded))


def _scope_columns(meta: bytes, recorded: int) -> _ScopeColumns:
    """The columns that no hash covers."""
    if meta == _EMPTY:
        return (recorded, None, None, None)
    scope = _scope.decode(meta)
    return (recorded, scope.org, scope.app, scope.env)


def size_of(ledger: Ledger | None) -> int:
    """The bytes of payload and meta in a commit, for the error that says that they do not fit on the disk."""
    return sum(len(row[InRow.payload] or b"") + len(row[InRow.meta]) for row in ledger.rows) if ledger else 0


def _lease_row(lease: leases.Lease) -> tuple[str, int, str | None, int | None, int | None, str | None]:
    owner = lease.owner
    if owner is None:
        return (lease.stream, lease.number, None, None, None, None)
    return (lease.stream, lease.number, owner.host, owner.pid, owner.started, owner.handle)
