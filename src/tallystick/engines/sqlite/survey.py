"""Which parts of a file are damaged: asked when a writer did not close, and when a page turns out to be damaged.

SQLite has no checksums of its own, so its quick_check is followed by ours: payload checksums and chain links.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from tallystick import errors
from tallystick.engines.sqlite import migrations, postings, statements
from tallystick.engines.sqlite.rows import event_of
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.tables import schema, translate
from tallystick.event import chain
from tallystick.store.page import Hole

_NEWEST = 64
_WINDOW = 4096
_PROBES_MAX = 100_000
_KINDS = ("trigger", "table", "index", "view")


def damage_in(connection: sqlite3.Connection, *, newest: bool = True) -> str | None:
    """The first thing that is wrong with the database or its newest events; None if nothing is."""
    try:
        answer = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if answer != "ok":
            return str(answer)
        return _damage_at_the_end(connection) if newest else None
    except sqlite3.DatabaseError as problem:
        if not translate.is_damage(problem):
            raise
        return str(problem)


def identity(connection: sqlite3.Connection) -> tuple[bytes, str]:
    """The id and the profile of the store."""
    row = connection.execute(statements.named("identity")).fetchone()
    store_id, profile = row or (b"", "")
    if (type(store_id), type(profile)) != (bytes, str) or len(store_id) != 16:
        raise errors.Damaged(first=0, last=0, reason="the row with the identity of the store is not what was written")
    return store_id, profile


def quick_damage_in(connection: sqlite3.Connection) -> str | None:
    """What is wrong with the schema or the counter of positions. Cheap, because every opening asks."""
    for kind in _KINDS:
        found = schema.definitions(connection, kind)
        for name, what in schema.differences(found, migrations.expected_schema(kind)):
            return f"the {kind} {name} {what}"
    head = SqliteView(connection).head()
    last = max(connection.execute(statements.named("last_positions")).fetchone())
    return None if last == head else f"the last position is {last}, and the counter of positions is at {head}"


def _damage_at_the_end(connection: sqlite3.Connection) -> str | None:
    """Check the newest events: they are what an interrupted writer was writing."""
    view = SqliteView(connection)
    ended: set[str] = set()
    for row in connection.execute(statements.named("newest_events"), (_NEWEST,)).fetchall():
        event = event_of(row)
        where = f"position {event.position} ({event.stream} {event.seq})"
        if event.payload is not None and chain.checksum(event.payload) != event.checksum:
            return f"the payload at {where} does not have its checksum"
        (before,) = view.links_before([event])
        if before is not None and chain.link(event, before) != event.link:
            return f"the link at {where} does not follow from the event before it"
        if not postings.are_stored(connection, event.row):
            return f"the index of tags lacks a tag of {where}"
        head = view.stream_head(event.stream)
        if event.stream not in ended and (head is None or (head.seq, head.link) != (event.seq, event.link)):
            return f"{event.stream} ends at {where}, but its recorded end is another"
        ended.add(event.stream)
    return None


def holes_in(connection: sqlite3.Connection, *, reason: str, end: Hole | None = None) -> list[Hole]:
    """The ranges that cannot be read as they were written; `end` is a known one, after the last position.

    A position that is missing and was not pruned is in a hole. If all events are undamaged (and, for example, an index
    is not), there is one hole at 0: readers have nothing to step over, but appends are refused.
    """
    known, head = _known_head(connection)
    lost = [(known + 1, head)] if known < head else []
    probes = 0
    pending = list(_windows(known))[::-1]
    while pending:
        first, last = pending.pop()
        probes += 1
        try:
            lost += _lost_between(connection, first, last)
        except sqlite3.DatabaseError as problem:
            if not translate.is_damage(problem):
                raise
            if first == last or probes > _PROBES_MAX:
                lost.append((first, last))
            else:
                middle = (first + last) // 2
                pending += [(middle + 1, last), (first, middle)]
    holes = [Hole(first, last, reason) for first, last in merge_ranges(lost)]
    return [*holes, *([end] if end is not None else [])] or [Hole(0, 0, reason)]


def require_all(connection: sqlite3.Connection, *, first: int, last: int, count: int) -> None:
    """Refuse a range in which an event is missing that was not pruned: another program deleted it."""
    (pruned,) = connection.execute(statements.named("count_pruned"), (first, last)).fetchone()
    missing = last - first + 1 - count - pruned
    if missing > 0:
        reason = f"{missing} events are missing between positions {first} and {last}, and were not pruned"
        raise errors.Damaged(first=first, last=last, reason=reason)


def _windows(head: int) -> Iterator[tuple[int, int]]:
    for first in range(1, head + 1, _WINDOW):
        yield first, min(first + _WINDOW - 1, head)


def _known_head(connection: sqlite3.Connection) -> tuple[int, int]:
    """The last position that an event has or had, and the last one that was assigned.

    They differ only if something is lost. A damaged counter may have any value, too high to count up to.
    """
    try:
        head = SqliteView(connection).head()
    except (sqlite3.DatabaseError, errors.Damaged) as problem:
        if isinstance(problem, sqlite3.Error) and not translate.is_damage(problem):
            raise
        head = 0
    try:
        known = max(connection.execute(statements.named("last_positions")).fetchone())
    except sqlite3.DatabaseError as problem:
        if not translate.is_damage(problem):
            raise
        known = head
    return known, head


def _lost_between(connection: sqlite3.Connection, first: int, last: int) -> list[tuple[int, int]]:
    missing = set(range(first, last + 1)) - _known_pruned_between(connection, first, last)
    for position, payload, checksum, *_ in connection.execute(statements.named("probe_events"), (first, last)):
        if payload is None or (type(payload) is bytes and chain.checksum(payload) == checksum):
            missing.discard(position)
    return merge_ranges([(position, position) for position in missing])


def pruned_between(connection: sqlite3.Connection, first: int, last: int) -> set[int]:
    """The positions that were pruned or skipped."""
    found = {position for (position,) in connection.execute(statements.named("pruned_between"), (first, last))}
    for begin, end in connection.execute(statements.named("skipped_between"), (first, last)):
        found.update(range(begin, end + 1))
    return found


def _known_pruned_between(connection: sqlite3.Connection, first: int, last: int) -> set[int]:
    """The same; empty if that cannot be read: then every missing position counts as lost."""
    try:
        return pruned_between(connection, first, last)
    except sqlite3.DatabaseError as problem:
        if not translate.is_damage(problem):
            raise
        return set()


def merge_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same positions as the fewest ranges, in order."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined
