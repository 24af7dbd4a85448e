"""Writes a part of another store's log as rows, after `transfer.judge` accepted it.

A cut that a stream begins with, or an erasure, is recorded before the control fact that names it arrives. The row has
the position at which the fact will be, and `check_cuts` and `check_erasures` look for it there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import msgspec

from tallystick import errors
from tallystick.engines.sqlite import commit_rows, postings, statements
from tallystick.engines.sqlite.view import SqliteView
from tallystick.event.model import Event
from tallystick.store import consult as consultation
from tallystick.store import transfer
from tallystick.store.events import Consulted
from tallystick.store.maintenance import PrunedEvent
from tallystick.store.query import Query
from tallystick.store.transfer import Received, Transfer

if TYPE_CHECKING:
    from tallystick.engines.sqlite.engine import SqliteLog

_PRUNED_PAGE = 10_000


class SqliteReceiver:
    """The part of a SQLite log that receives the log of another store. A base of `SqliteLog`."""

    def receive(self, part: Transfer) -> None:
        log = cast("SqliteLog", self)
        log._require_writable()
        with log._database.maintaining() as connection:
            view = SqliteView(connection)
            write(connection, transfer.judge(view, part, head=view.head()), recorded=log._clock())
            head = view.head()
        log._note(head)
        with log._changed:
            log._changed.notify_all()

    def announced(self) -> int:
        with cast("SqliteLog", self)._database.reading() as connection:
            (last,) = connection.execute(statements.named("announced")).fetchone()
            if type(last) is not int:
                reason = f"the control fact of a cut or an erasure is at position {last!r}"
                raise errors.Damaged(first=0, last=0, reason=reason)
            return last

    def consult(self, query: Query, *, after: int, org: str | None, over_pruned: bool) -> Consulted:
        log = cast("SqliteLog", self)
        return consultation.consult(log, query, after=after, org=org, over_pruned=over_pruned)

    def pruned_events(self) -> Iterator[PrunedEvent]:
        log, after = cast("SqliteLog", self), 0
        while page := _pruned_after(log, after):
            yield from page
            after = page[-1].position


def _pruned_after(log: SqliteLog, after: int) -> list[PrunedEvent]:
    with log._database.reading() as connection:
        return SqliteView(connection).pruned_after(after, limit=_PRUNED_PAGE)


def write(connection: sqlite3.Connection, part: Received, *, recorded: int) -> None:
    """Write a part. Cuts come first, because they admit the pruned ids. Erasures follow their events."""
    cuts = [(*msgspec.structs.astuple(founding.cut), founding.fact_position) for founding in part.cuts]
    connection.executemany(statements.named("insert_cut"), cuts)
    connection.executemany(
        statements.named("insert_pruned"), [(gone.position, gone.id, gone.type, gone.org) for gone in part.pruned]
    )
    connection.executemany(statements.named("insert_skipped"), part.skipped)
    connection.executemany(
        statements.named("insert_event"), [commit_rows.row_of(Event(*row), recorded) for row in part.rows]
    )
    postings.insert(connection, [*postings.of_pruned(part.pruned), *postings.of_rows(part.rows)])
    kept = [(gone.position, tag) for gone in part.pruned for tag in gone.tags]
    connection.executemany(statements.named("insert_pruned_tag"), kept)
    heads = [(stream, head.seq, head.link, head.org) for stream, head in part.heads.items()]
    connection.executemany(statements.named("move_head"), heads)
    connection.executemany(statements.named("move_source"), [(*key, seq) for key, seq in part.sources.items()])
    erasures = [
        (erasure.position, erasure.stream, erasure.seq, erasure.checksum, fact_position)
        for erasure, fact_position in part.erasures
    ]
    connection.executemany(statements.named("insert_erasure"), erasures)
