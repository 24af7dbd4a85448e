"""The rows of the index of tags: one for each tag of an event, from its meta alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tallystick.engines.sqlite import statements
from tallystick.event import tags
from tallystick.event.model import InRow, Row
from tallystick.store.maintenance import Cut, PrunedEvent

_AT_ONCE = 1000

Posting: TypeAlias = "tuple[str, str, int, str | None]"
"""Tag, type, position and org, as `insert_tag` takes them."""


def of_rows(rows: Iterable[Row]) -> Iterator[Posting]:
    """The postings of events. Most events have no tags: their meta is not decoded."""
    for row in [row for row in rows if tags.LISTED in row[InRow.meta]]:
        found = tags.tagged(row[InRow.meta])
        yield from ((tag, row[InRow.type], row[InRow.position], found.org) for tag in found.tags)


def of_pruned(gone: Iterable[PrunedEvent]) -> Iterator[Posting]:
    """The postings of events that were pruned elsewhere. One whose type is not known has no tags."""
    for each in gone:
        if each.type is not None:
            yield from ((tag, each.type, each.position, each.org) for tag in each.tags)


def insert(connection: sqlite3.Connection, found: Iterable[Posting]) -> None:
    """Write postings in order of their key: neighbours are then on one page, which is changed once."""
    if rows := sorted(found, key=lambda posting: posting[:3]):
        stored = connection.executemany(statements.named("insert_tag"), rows).rowcount
        statements.require_stored(len(rows), stored, "tags")


def keep_of_pruned(connection: sqlite3.Connection, cut: Cut) -> None:
    """Keep the tags of the events that a cut is about to take, by position. Their postings stay."""
    found = connection.execute(statements.named("tagged_events"), (cut.stream, cut.through))
    while some := found.fetchmany(_AT_ONCE):
        kept = [(position, tag) for position, meta in some for tag in tags.stored(meta)]
        connection.executemany(statements.named("insert_pruned_tag"), kept)


def are_stored(connection: sqlite3.Connection, row: Row) -> bool:
    """Whether the index has every tag of an event."""
    return all(connection.execute(statements.named("has_tag"), each).fetchone() for each in of_rows([row]))
