"""Queries of types and tags as the database gets them, what conditions lock, and consultations.

Invariant: the safe head is proven before the events are read, and one snapshot sees postings, events and what was
pruned. An event that is returned was compared with the query: a posting alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from tallystick import errors
from tallystick.engines.postgres.connections import ReadConnections
from tallystick.engines.postgres.damage import PostgresDamage
from tallystick.engines.postgres.safe_head import SafeHead
from tallystick.event.model import Event
from tallystick.store import checked
from tallystick.store.checked import Evidence
from tallystick.store.damage import DamageRecord
from tallystick.store.events import Consulted, Problem
from tallystick.store.page import Page
from tallystick.store.query import Condition, Item, subject

TAGS_MAX = 64  # that conditions of one commit lock one by one
_POSITION, _STREAM, _PRUNED = 0, 1, 12


class CheckedLog(Evidence, Protocol):
    """A log that checks its events, and has a record of damage."""

    damage: PostgresDamage


def to_json(items: Iterable[Item]) -> str:
    """Items of queries, as the functions of the database take them."""
    return msgspec.json.encode([msgspec.structs.asdict(item) for item in items]).decode()


def asked(condition: Condition, stored_max: int) -> tuple[str, int, str | None, int]:
    """What the ledger can ask about a condition. At most so many of its own events may be stored already."""
    most = condition.beyond + stored_max + 1
    return (to_json(condition.query.items), condition.after, condition.org, most)


def items_of_all(conditions: Sequence[Condition]) -> dict[Item, None]:
    """Every item of some conditions, once."""
    return dict.fromkeys(item for condition in conditions for item in condition.query.items)


def lock_the_log(conditions: Sequence[Condition]) -> bool:
    """Whether these conditions need the whole log: tags cannot be locked for all of what they ask."""
    items = items_of_all(conditions)
    return len(items) > TAGS_MAX or any(not item.tags for item in items)


def parameters(condition: Condition) -> tuple[bytes | None, ...]:
    """A condition as `append_unless` takes it after its event."""
    return (
        b"\x01" + to_json(condition.query.items).encode(),  # jsonb in binary: its version, and the text
        condition.after.to_bytes(8, "big"),
        condition.beyond.to_bytes(8, "big"),
        None if condition.org is None else condition.org.encode(),
    )


def consult(
    log: CheckedLog,
    connections: ReadConnections,
    safe_head: SafeHead,
    condition: Condition,
    *,
    over_pruned: bool,
) -> Consulted:
    """See `EventLog.consult`."""
    record = log.damage
    head = safe_head.glance()
    rows = connections.rows("consult", (to_json(condition.query.items), condition.after, condition.org))
    events = [Event(*row[:_PRUNED]) for row in rows if row[_STREAM] is not None]
    pruned = [row[_POSITION] for row in rows if row[_PRUNED]]
    lost = [row[_POSITION] for row in rows if row[_PRUNED] is False]
    if lost and connections.org is None:  # a tenant cannot see every event of its org
        checked.refuse(record, [Problem("tags", "the index of tags names an event that is missing", lost[0])])
    if pruned and not over_pruned:
        raise errors.HistoryPruned(what="matching events at positions", first=pruned[0], last=pruned[-1])
    require_sound(record, log, events, after=condition.after)
    require_matching(record, condition, events)
    if events:
        connections.history.note(events[-1].position, events[-1].link)
    found = sorted([*pruned, *(event.position for event in events)])
    return Consulted(events, head, sum(position > head for position in found))


def require_sound(record: DamageRecord, evidence: Evidence, events: list[Event], *, after: int) -> None:
    """Refuse all of them if one is wrong: a decision must not be based on the others."""
    while events:
        last = events[-1].position
        after = checked.page(record, Page(events, last), evidence, after=after).through
        events = [event for event in events if event.position > after]


def require_matching(record: DamageRecord, condition: Condition, events: list[Event]) -> None:
    """Refuse events that the index of tags gave and that do not match."""
    reason = "the index of tags finds it by what it does not have"
    wrong = [event for event in events if not condition.matches(subject(event.type, event.meta))]
    checked.refuse(record, [Problem("tags", reason, event.position, event.stream, event.seq) for event in wrong])
