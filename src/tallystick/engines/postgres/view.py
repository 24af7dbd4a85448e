"""What is stored, fetched at once under the locks of a commit, for the ledger to judge by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from tallystick.engines.postgres import arrays, statements
from tallystick.event.model import Event
from tallystick.store.commit import Transaction
from tallystick.store.leases import Lease, Owner
from tallystick.store.ledger import Head


class Wanted:
    """What the judgement of some transactions can ask for."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        writes = [write for transaction in transactions for write in transaction.writes]
        taken = {stream for each in transactions for stream in (*each.acquire, *each.release)}
        self.streams = sorted({write.stream for write in writes} | taken)
        self.leased = sorted({write.stream for write in writes if write.is_leased} | taken)
        self.ids = sorted({draft[2] for write in writes if write.ids_given for draft in write.drafts})
        self.sources = sorted({mark.source for write in writes for mark in write.sources})


class LockedView:
    """The answers to a ledger, as of the locks; nothing in them can change before the transaction ends."""

    def __init__(self, connection: psycopg.Connection[Any], wanted: Wanted) -> None:
        self.foreign: set[str] = set()  # streams of another org than the session's
        self._heads: dict[str, Head] = {}
        self._events: dict[bytes, Event] = {}
        self._sources: dict[str, int] = {}
        self._leases: dict[str, Lease] = {}
        with connection.pipeline():
            connection.execute("BEGIN")
            heads = _ask(connection, "begin_append", wanted.streams, wanted.sources)
            events = _ask(connection, "find_events", arrays.uuids(wanted.ids)) if wanted.ids else None
            sources = _ask(connection, "source_heads", wanted.sources) if wanted.sources else None
            leases = _ask(connection, "find_leases", wanted.leased) if wanted.leased else None
        for stream, seq, link, org, foreign in heads:
            self._heads[stream] = Head(seq, link, org)
            if foreign:
                self.foreign.add(stream)
        for row in events or ():
            self._events[row[5]] = Event(*row)
        for source, seq in sources or ():
            self._sources[source] = seq
        for stream, number, *owner in leases or ():
            self._leases[stream] = Lease(stream, number, Owner(*owner) if owner[0] is not None else None)

    def stream_head(self, stream: str) -> Head | None:
        return self._heads.get(stream)

    def find(self, id: bytes) -> Event | None:
        return self._events.get(id)

    def source_head(self, source: str) -> int:
        return self._sources.get(source, 0)

    def lease(self, stream: str) -> Lease | None:
        return self._leases.get(stream)


def _ask(connection: psycopg.Connection[Any], name: str, *values: Any) -> psycopg.Cursor[Any]:
    return connection.execute(statements.named(name), values, binary=True)
