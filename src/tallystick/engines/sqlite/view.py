"""What one connection sees in the store: for the ledger inside of a commit, and for readers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from tallystick import errors
from tallystick.engines.sqlite import matches, statements
from tallystick.engines.sqlite.rows import event_of, struct_of
from tallystick.engines.tables.database import Database
from tallystick.event.chain import GENESIS
from tallystick.event.model import Event
from tallystick.store import checked, leases
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.ledger import Head
from tallystick.store.maintenance import Cut, PrunedEvent
from tallystick.store.query import Condition

_AT_ONCE = 400  # below SQLite's limit of variables; a longer statement is not faster
_PAIR = "(?, ?)"


@lru_cache(maxsize=64)
def _for_many(name: str, count: int) -> str:
    """A statement with `= ?` or `VALUES (?, ?)`, changed to take `count` values or pairs instead of one."""
    query = statements.named(name)
    if _PAIR in query:
        return query.replace(_PAIR, ",".join([_PAIR] * count))
    before, _, _ = query.rpartition("=")
    return f"{before} IN ({','.join('?' * count)})"


class SqliteView:
    """The answers of one connection, as of its transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._any_pruned: bool | None = None

    def _one(self, name: str, *values: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(statements.named(name), values).fetchone()
        return row

    def _many(self, name: str, keys: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """The rows for any of these keys, with many keys per statement."""
        for at in range(0, len(keys), _AT_ONCE):
            some = keys[at : at + _AT_ONCE]
            yield from self._connection.execute(_for_many(name, len(some)), list(chain.from_iterable(some)))

    def head(self) -> int:
        """The highest position ever assigned."""
        row = self._one("head")
        head = row[0] if row else 0
        if type(head) is not int or head < 0:
            raise errors.Damaged(first=0, last=0, reason=f"the counter of positions is {head!r}")
        return head

    def stream_head(self, stream: str) -> Head | None:
        """Where a stream ends. Refused if its events end at another seq: then an index or a table is damaged."""
        row = self._one("stream_head", stream)
        assert row is not None
        seq, link, org, event_seq, event_link = row
        if (seq, link) != (event_seq, event_link):
            reason = f"{stream} ends at seq {event_seq or 0} by its events, and at {seq or 0} by its recorded end"
            raise errors.Damaged(first=0, last=0, reason=reason)
        return None if seq is None else struct_of(Head, (seq, link, org))

    def find(self, id: bytes) -> Event | None:
        row = self._one("find_event", id)
        return None if row is None else event_of(row)

    def links_before(self, events: Sequence[Event]) -> list[bytes | None]:
        """The link that each event follows; None if the event before it is missing, and no cut says why."""
        before = [(event.stream, event.seq - 1) for event in events]
        links: dict[tuple[str, int], Any] = dict.fromkeys(before)
        for name in ("find_link", "find_link_of_cut"):
            missing = [place for place, link in links.items() if link is None]
            found = self._many(name, missing)
            links.update({(stream, seq): link for stream, seq, link in found if type(link) is bytes})
        return [GENESIS if seq == 0 else links[stream, seq] for stream, seq in before]

    def erased(self, positions: Sequence[int]) -> set[int]:
        """Those of these positions that have an erasure."""
        return {position for (position,) in self._many("find_erasure", [(position,) for position in positions])}

    def floor(self) -> int:
        """The highest position that was pruned."""
        row = self._one("floor")
        floor = row[0] if row else 0
        if type(floor) is not int:
            raise errors.Damaged(first=0, last=0, reason=f"the last position of a cut is {floor!r}")
        return floor

    def cut(self, stream: str) -> Cut | None:
        row = self._one("find_cut", stream)
        return None if row is None else struct_of(Cut, row)

    def cuts(self, *, after: str, limit: int) -> list[Cut]:
        """The latest cut of each stream whose name is after `after`."""
        return [struct_of(Cut, row) for row in self._connection.execute(statements.named("list_cuts"), (after, limit))]

    def pruned(self, id: bytes) -> bool:
        if self._any_pruned is None:  # asked once per commit: most logs are never pruned, and imports give every id
            self._any_pruned = self._one("any_pruned") is not None
        return self._any_pruned and self._one("is_pruned", id) is not None

    def pruned_after(self, after: int, *, limit: int) -> list[PrunedEvent]:
        """What is kept of the pruned events after a position, ascending."""
        rows = self._connection.execute(statements.named("list_pruned"), (after, limit))
        return [_pruned_of(*kept, tags=tuple(json.loads(tags))) for *kept, tags in rows]

    def matches(self, condition: Condition, *, limit: int) -> list[int]:
        return matches.positions(self._connection, condition, limit=limit, pruned=True)

    def command(self, key: CommandKey) -> CommandRecord | None:
        row = self._one("find_command", key.org, key.actor, key.endpoint, key.key)
        if row is None:
            return None
        number, request_hash, response, recorded = row
        found = self._connection.execute(statements.named("find_ranges"), (number,)).fetchall()
        ranges, places = tuple(part[:3] for part in found), tuple(part[3:] for part in found)
        known = all(None not in place for place in places)
        return CommandRecord(key, request_hash, response, recorded, ranges, places if known else ())

    def source_head(self, org: str, source: str) -> int:
        row = self._one("source_head", org, source)
        return (row and row[0]) or 0

    def lease(self, stream: str) -> leases.Lease | None:
        row = self._one("find_lease", stream)
        if row is None:
            return None
        name, number, *owner = row
        held_by = None if owner[0] is None else struct_of(leases.Owner, owner)
        return struct_of(leases.Lease, (name, number, held_by))

    def recorded_at(self, position: int) -> int | None:
        """When the event at a position was recorded."""
        row = self._one("recorded_at", position)
        return row[0] if row else None


def _pruned_of(position: Any, id_: Any, type_: Any, org: Any, *, tags: tuple[str, ...]) -> PrunedEvent:
    is_text = all(isinstance(text, str | None) for text in (type_, org))
    if type(position) is int and type(id_) is bytes and len(id_) == 16 and is_text:
        return PrunedEvent(position, id_, type_, org, tags)
    raise errors.Damaged(
        first=0, last=0, reason=f"what is kept of pruned position {position!r} is not what was written"
    )


class StreamEnd:
    """Where a stream ends, or why that is not known: events before its end can be read even then."""

    def __init__(self, connection: sqlite3.Connection, stream: str) -> None:
        self._stream = stream
        self._head: Head | None = None
        self._damage: errors.Damaged | None = None
        try:
            self._head = SqliteView(connection).stream_head(stream)
        except errors.Damaged as damage:
            self._damage = damage

    def require(self, reached: int, until: int) -> None:
        """Refuse events up to seq `reached` if the stream has, or may have, more of the events up to `until`."""
        if self._damage is not None:
            raise self._damage
        if self._head is not None and reached < min(self._head.seq, until):
            reason = f"{self._stream} has {self._head.seq} events, and some are missing"
            raise errors.Damaged(first=0, last=0, reason=reason)


class SqliteEvidence:
    """What the rows of a database say about events that were read: the links before them, and what was erased.

    See `tallystick.store.checked.Evidence`.
    """

    def __init__(self, database: Database, is_whole: Callable[[], bool]) -> None:
        self._database = database
        self._is_whole = is_whole

    def links_before(self, events: Sequence[Event]) -> list[bytes | None]:
        """For each event the link of the one before it in its stream; see the port."""
        try:
            with self._database.reading() as connection:
                found = SqliteView(connection).links_before(events)
            if None not in found or not self._is_whole():
                return found
            with self._database.reading() as connection:  # again: a transfer may have ended meanwhile
                view = SqliteView(connection)
                return checked.predecessor_links(events, view.links_before(events), view.cut)
        except errors.Damaged:  # the event before one of them is on a damaged page: reading that one reports it
            return [None] * len(events)

    def erased(self, positions: Sequence[int]) -> set[int]:
        """Those of these positions whose erasure is noted."""
        with self._database.reading() as connection:
            return SqliteView(connection).erased(positions)
