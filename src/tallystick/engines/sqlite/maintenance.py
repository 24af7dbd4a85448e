"""Writes maintenance that the ledger accepted as rows, each with the control fact of the same commit that names it.

The triggers compare every cut and erasure with the fact at its `fact_position`. Erasures come before cuts, because one
commit may do both to one event.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from tallystick import errors
from tallystick.engines.sqlite import authorizer, commands, postings, snapshots, statements
from tallystick.engines.tables.connection import connect
from tallystick.engines.tables.views import OpenTransaction, SqliteViews
from tallystick.event.model import Event, InRow, Row
from tallystick.store import facts
from tallystick.store.maintenance import Maintenance

F = TypeVar("F", bound=facts.Fact)


def connection_to(path: str, *, busy_ms: int) -> sqlite3.Connection:
    """A connection that may maintain."""
    connection = connect(path, mode="rw", busy_ms=busy_ms)
    authorizer.allow_maintenance(connection)
    return connection


def maintain(connection: sqlite3.Connection, asked: Maintenance, rows: list[Row]) -> None:
    """Apply maintenance, after the rows of its commit were written."""
    snapshots.insert(connection, asked.snapshots)
    _erase(connection, asked, rows)
    _prune(connection, asked, rows)
    connection.executemany(statements.named("drop_snapshot"), [(id_,) for id_ in asked.dropped_snapshots])
    commands.erase_responses(connection, asked.erased_responses)
    views = SqliteViews(OpenTransaction(connection))
    for projection, key in asked.dropped_rows:
        views.drop(projection, [key])


def _erase(connection: sqlite3.Connection, asked: Maintenance, rows: list[Row]) -> None:
    if not asked.erasures:
        return
    named = {
        (fact.stream, fact.seq, fact.checksum): position for position, fact in _facts(rows, facts.ERASED, facts.Erased)
    }
    for erasure in asked.erasures:
        fact_position = named.get((erasure.stream, erasure.seq, erasure.checksum.hex()))
        if fact_position is None:
            reason = "no control fact of the same commit names it"
            raise errors.EraseRefused(stream=erasure.stream, seq=erasure.seq, reason=reason)
        values = (erasure.position, erasure.stream, erasure.seq, erasure.checksum, fact_position)
        connection.execute(statements.named("insert_erasure"), values)
        connection.execute(statements.named("erase_payload"), (erasure.position,))


def _prune(connection: sqlite3.Connection, asked: Maintenance, rows: list[Row]) -> None:
    if not asked.cuts:
        return
    named = {
        (fact.stream, fact.through, fact.link): position for position, fact in _facts(rows, facts.PRUNED, facts.Pruned)
    }
    for cut in asked.cuts:
        fact_position = named.get((cut.stream, cut.through, cut.link.hex()))
        if fact_position is None:
            reason = "no control fact of the same commit names it"
            raise errors.PruneRefused(stream=cut.stream, before=cut.through + 1, reason=reason)
        connection.execute(statements.named("insert_cut"), (*msgspec.structs.astuple(cut), fact_position))
        postings.keep_of_pruned(connection, cut)
        connection.execute(statements.named("prune_events"), (cut.stream, cut.through))


def _facts(rows: list[Row], type_: str, kind: type[F]) -> Iterator[tuple[int, F]]:
    """The facts of one type in a commit, each with its position."""
    for row in rows:
        if row[InRow.type] == type_:
            yield row[InRow.position], facts.parse(Event(*row), kind)
