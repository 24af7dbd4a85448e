"""What the ledger decides by: the stored state, fetched at once under the locks of a commit, or a guess."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

import psycopg

from tallystick import errors
from tallystick.engines.postgres import arrays, commands, conditions, statements
from tallystick.event import tags
from tallystick.event.model import Event, InDraft
from tallystick.store.commit import Transaction, Write
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.leases import Lease, Owner
from tallystick.store.ledger import Head, Source
from tallystick.store.maintenance import Cut, Maintenance
from tallystick.store.query import Condition

_NOTHING = Maintenance()


class LedgerQueries:
    """What the ledger can ask about some transactions."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        writes = [write for transaction in transactions for write in transaction.writes]
        taken = {stream for each in transactions for stream in (*each.acquire, *each.release)}
        required = {stream for each in transactions for stream, _ in each.require}
        asked = [each.maintenance or _NOTHING for each in transactions]
        erasures = [erasure for each in asked for erasure in each.erasures]
        self.cut = sorted({cut.stream for each in asked for cut in each.cuts})
        touched = {erasure.stream for erasure in erasures}.union(self.cut, required, taken)
        self.streams = sorted({write.stream for write in writes} | touched)
        self.leased = sorted({write.stream for write in writes if write.is_leased} | taken)
        self.given_ids = sorted({draft[InDraft.id] for write in writes if write.ids_given for draft in write.drafts})
        self.ids = sorted({erasure.id for erasure in erasures}.union(self.given_ids))
        self.sources = sorted({mark.key for write in writes for mark in write.sources})
        self.commands = list({each.command.key for each in transactions if each.command is not None})
        self.conditions = list(dict.fromkeys(each.unless for each in transactions if each.unless is not None))
        self.items = conditions.items_of_all(self.conditions)
        self._writes = writes

    def own_tags(self) -> list[str]:
        """The tags of all events."""
        found = (tags.stored(draft[InDraft.meta]) for write in self._writes for draft in write.drafts)
        return sorted({tag for given in found for tag in given})


class LedgerAnswers:
    """The answers to the ledger: where streams end, and whatever was fetched."""

    def __init__(self, heads: dict[str, Head]) -> None:
        self.foreign: set[str] = set()  # streams of another org than the session's
        self._heads = heads
        self._events: dict[bytes, Event] = {}
        self._sources: dict[Source, int] = {}
        self._leases: dict[str, Lease] = {}
        self._cuts: dict[str, Cut] = {}
        self._pruned: set[bytes] = set()
        self._commands: dict[CommandKey, CommandRecord] = {}
        self._matches: dict[Condition, list[int]] = {}

    def stream_head(self, stream: str) -> Head | None:
        return self._heads.get(stream)

    def find(self, id: bytes) -> Event | None:
        return self._events.get(id)

    def source_head(self, org: str, source: str) -> int:
        return self._sources.get((org, source), 0)

    def lease(self, stream: str) -> Lease | None:
        return self._leases.get(stream)

    def cut(self, stream: str) -> Cut | None:
        return self._cuts.get(stream)

    def pruned(self, id: bytes) -> bool:
        return id in self._pruned

    def matches(self, condition: Condition, *, limit: int) -> list[int]:
        return self._matches[condition][:limit]

    def command(self, key: CommandKey) -> CommandRecord | None:
        return self._commands.get(key)


class LockedView(LedgerAnswers):
    """Answers that were fetched under locks: nothing in them can change before the transaction ends."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        wanted: LedgerQueries,
        *,
        begin: Callable[[psycopg.Connection[Any]], None],
        alone: bool = False,
    ) -> None:
        super().__init__({})
        locked = [*map("\n".join, wanted.sources), *map(commands.lock_name, wanted.commands)]
        alone = alone or conditions.lock_the_log(wanted.conditions)
        with connection.pipeline():
            begin(connection)
            if alone:
                _ask(connection, "lock_log")
            heads = _ask(connection, "begin_append", wanted.streams, locked)
            if wanted.conditions and not alone:
                _ask(connection, "begin_condition", conditions.to_json(wanted.items), wanted.own_tags())
            events = _ask(connection, "find_events", arrays.uuids(wanted.ids)) if wanted.ids else None
            # after the events: one that is pruned between the two statements is then found in one of them
            pruned = _ask(connection, "find_pruned", arrays.uuids(wanted.given_ids)) if wanted.given_ids else None
            sources = _ask(connection, "source_heads", *_columns(wanted.sources)) if wanted.sources else None
            leases = _ask(connection, "find_leases", wanted.leased) if wanted.leased else None
            cuts = _ask(connection, "find_cuts", wanted.cut) if wanted.cut else None
            known = _ask(connection, "find_commands", *commands.columns(wanted.commands)) if wanted.commands else None
            matching = [
                _ask(connection, "matching", *conditions.asked(condition, len(wanted.given_ids)))
                for condition in wanted.conditions
            ]
        for stream, seq, link, org, foreign in heads:
            self._heads[stream] = Head(seq, link, org)
            if foreign:
                self.foreign.add(stream)
        for event in starmap(Event, events or ()):
            self._events[event.id] = event
        for org, source, seq in sources or ():
            self._sources[org, source] = seq
        for stream, number, *owner in leases or ():
            self._leases[stream] = Lease(stream, number, Owner(*owner) if owner[0] is not None else None)
        self._cuts = {cut.stream: cut for cut in map(cut_of, cuts or ())}
        self._pruned = {id_ for (id_,) in pruned or ()}
        self._commands = {record.key: record for record in map(commands.record_of, known or ())}
        for condition, found in zip(wanted.conditions, matching, strict=True):
            self._matches[condition] = [position for (position,) in found]


def cut_of(row: tuple[Any, ...]) -> Cut:
    """A cut, as `find_cuts` gives it."""
    stream, through, link, first, last, count, org = row
    return Cut(
        stream=stream, through=through, link=link, first_position=first, last_position=last, count=count, org=org
    )


def _columns(sources: Sequence[Source]) -> list[list[str]]:
    return [[source[column] for source in sources] for column in range(2)]


def _ask(connection: psycopg.Connection[Any], name: str, *values: Any) -> psycopg.Cursor[Any]:
    return connection.execute(statements.named(name), values, binary=True)


def of_another_org(write: Write, org: str) -> errors.OrgMismatch:
    """The refusal of a stream that is not of `org`. It says nothing about the other org, nor where the stream ends."""
    if write.orgs == {org}:
        return errors.OrgMismatch(stream=write.stream, org="another org", given=org)
    return errors.OrgMismatch(stream=write.stream, org=org, given=min(write.orgs or {"no org"}))
