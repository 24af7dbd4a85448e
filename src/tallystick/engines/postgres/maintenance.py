"""Maintenance: pruning, erasing, keeping and dropping snapshots, and the vacuum after it.

Each change has a control fact in the same transaction that names it. Invariant: the role that appends can only keep
snapshots; what prunes, erases, drops and forgets runs as `tally_maintenance`, and triggers judge all of it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import psycopg

from tallystick import errors
from tallystick.engines.postgres import arrays, commands, statements, translate, views
from tallystick.engines.postgres.connections import MAINTENANCE, SERVICE, ReadConnections, ServerConnections
from tallystick.event import canonical, chain
from tallystick.event.model import InDraft, InRow, Row
from tallystick.store import facts
from tallystick.store.commit import Transaction
from tallystick.store.maintenance import Maintenance, Reclaimed
from tallystick.store.snapshots import Snapshot, within

TABLES = ("tally.events", "tally.snapshots", "tally.commands", "tally.command_ranges")
_NOT_ALLOWED = f"nothing: the role that logs in is not a member of {MAINTENANCE}; autovacuum will do it"
_POOLED = "nothing: a vacuum needs a connection of its own, and a pooler is in front of the server; connect directly"
_NOT_NAMED = "no control fact of the same transaction names it"


class NamedChanges:
    """The changes that the control facts of a commit name, each with the id of its fact."""

    def __init__(self, events: Iterable[tuple[str, bytes, bytes | None]]) -> None:
        self.cuts: dict[tuple[Any, ...], bytes] = {}
        self.erasures: dict[tuple[Any, ...], bytes] = {}
        self.bodies: dict[bytes, Any] = {}
        self.dropped: dict[str, bytes] = {}
        for kind, id_, payload in events:
            if kind in _TAKEN and payload is not None:
                _TAKEN[kind](self, id_, canonical.decode(payload))

    def _pruned(self, id_: bytes, fact: dict[str, Any]) -> None:
        self.cuts[fact.get("stream"), fact.get("through"), fact.get("link")] = id_

    def _erased(self, id_: bytes, fact: dict[str, Any]) -> None:
        self.erasures[fact.get("stream"), fact.get("seq"), fact.get("checksum")] = id_

    def _snapshotted(self, id_: bytes, fact: dict[str, Any]) -> None:
        self.bodies[id_] = (fact.get("stream"), fact.get("body_hash"))

    def _dropped(self, id_: bytes, fact: dict[str, Any]) -> None:
        self.dropped |= dict.fromkeys(fact.get("snapshots", ()), id_)


_TAKEN = {
    facts.PRUNED: NamedChanges._pruned,
    facts.ERASED: NamedChanges._erased,
    facts.SNAPSHOTTED: NamedChanges._snapshotted,
    facts.SNAPSHOT_DROPPED: NamedChanges._dropped,
}


def require_named(transaction: Transaction) -> None:
    """Refuse a transaction whose facts do not name everything that it does.

    One that writes nothing may bring snapshots whose facts are stored already; a trigger compares them.
    """
    asked = transaction.maintenance
    if asked is None:
        return
    drafts = (draft for write in transaction.writes for draft in write.drafts)
    named = NamedChanges((draft[InDraft.type], draft[InDraft.id], draft[InDraft.payload]) for draft in drafts)
    for cut in asked.cuts:
        if (cut.stream, cut.through, cut.link.hex()) not in named.cuts:
            raise errors.PruneRefused(stream=cut.stream, before=cut.through + 1, reason=_NOT_NAMED)
    for erasure in asked.erasures:
        if (erasure.stream, erasure.seq, erasure.checksum.hex()) not in named.erasures:
            raise errors.EraseRefused(stream=erasure.stream, seq=erasure.seq, reason=_NOT_NAMED)
    for snapshot in asked.snapshots:
        said = (snapshot.stream, chain.checksum(snapshot.body).hex())
        if transaction.writes and named.bodies.get(snapshot.id) != said:
            raise errors.SnapshotUnusable(snapshot=snapshot.id.hex(), reason=_NOT_NAMED)
    for id_ in asked.dropped_snapshots:
        if id_.hex() not in named.dropped:
            raise errors.SnapshotUnusable(snapshot=id_.hex(), reason=_NOT_NAMED)


def refusal(problem: psycopg.Error, asked: Maintenance) -> errors.TallyError | None:
    """What the triggers refused, as our error; None for any other problem."""
    if problem.sqlstate != translate.REFUSED_BY_TRIGGER:
        return None
    reason = problem.diag.message_primary or ""
    for cut in asked.cuts:
        return errors.PruneRefused(stream=cut.stream, before=cut.through + 1, reason=reason)
    for erasure in asked.erasures:
        return errors.EraseRefused(stream=erasure.stream, seq=erasure.seq, reason=reason)
    for id_ in (*(snapshot.id for snapshot in asked.snapshots), *asked.dropped_snapshots):
        return errors.SnapshotUnusable(snapshot=id_.hex(), reason=reason)
    return None


def needs_role(asked: Maintenance) -> bool:
    """Whether this needs more than the rights of a service, which may keep snapshots."""
    return bool(asked.cuts or asked.erasures or asked.dropped_snapshots or asked.erased_responses)


def maintain(connection: psycopg.Connection[Any], asked: Maintenance, rows: list[Row]) -> None:
    """Do what was asked, after the events of its commit. Erasures come first: a cut may cover the same event."""
    for snapshot in asked.snapshots:
        connection.execute(statements.named("keep_snapshot"), _snapshot_values(snapshot))
    for projection, key in asked.dropped_rows:
        views.drop_within(connection, projection, [key])
    if not needs_role(asked):
        return
    named = NamedChanges((row[InRow.type], row[InRow.id], row[InRow.payload]) for row in rows)
    connection.execute(statements.named("become_maintenance"))
    for erasure in asked.erasures:
        fact = named.erasures.get((erasure.stream, erasure.seq, erasure.checksum.hex()), bytes(16))
        values = (erasure.position, erasure.stream, erasure.seq, erasure.checksum, fact.hex())
        connection.execute(statements.named("erase"), values)
    for cut in asked.cuts:
        fact = named.cuts.get((cut.stream, cut.through, cut.link.hex()), bytes(16))
        connection.execute(statements.named("prune"), (*msgspec.structs.astuple(cut), fact.hex()))
    if asked.dropped_snapshots:
        names = [named.dropped.get(id_.hex(), bytes(16)) for id_ in asked.dropped_snapshots]
        dropped = (arrays.uuids(asked.dropped_snapshots), arrays.uuids(names))
        connection.execute(statements.named("drop_snapshots"), dropped)
    if asked.erased_responses:
        connection.execute(statements.named("erase_responses"), commands.columns(asked.erased_responses))


def _snapshot_values(made: Snapshot) -> tuple[Any, ...]:
    return (
        made.id.hex(),
        made.stream,
        made.seq,
        made.position,
        made.link,
        made.reducer,
        made.reducer_version,
        made.upcasters,
        made.kind,
        made.base.hex() if made.base is not None else None,
        made.state_hash,
        made.made,
        made.body,
    )


class PostgresSnapshots:
    """The bodies of snapshots in `tally.snapshots`, by the id of the control fact."""

    def __init__(self, connections: ReadConnections) -> None:
        self._connections = connections

    def load(self, id: bytes, *, bytes_max: int | None = None) -> bytes | None:
        rows = self._connections.rows("find_snapshot", (id.hex(),))
        return within(rows[0][0], bytes_max) if rows else None

    def ids(self) -> list[bytes]:
        return [id_ for (id_,) in self._connections.rows("list_snapshots")]

    def size(self) -> int:
        return int(self._connections.value("snapshots_size"))


def reclaim(connections: ServerConnections, progress: Callable[[int], None], *, allowed: bool) -> Reclaimed:
    """Vacuum the tables that maintenance changes, and report what was done, or why nothing was.

    Pruned or erased rows stay in the table until then. A vacuum frees their space for new rows, while readers and
    writers continue. It overwrites nothing, and returns pages to the disk only from the end of a table.
    """
    before = _size(connections)
    done = [_NOT_ALLOWED] if not allowed else [_POOLED] if connections.pooled else _vacuum(connections)
    progress(1)
    return Reclaimed(tuple(done), before, _size(connections))


def _vacuum(connections: ServerConnections) -> list[str]:
    warnings: list[str] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        warnings.append(notice.message_primary or "")

    with connections.connection() as connection:
        connection.add_notice_handler(note)
        connection.execute(statements.named("set_setting"), ("role", MAINTENANCE))
        try:
            connection.execute(statements.named("vacuum"))
        finally:
            connection.execute(statements.named("set_setting"), ("role", SERVICE))
            connection.remove_notice_handler(note)
    return warnings or [f"vacuumed {', '.join(TABLES)}"]


def _size(connections: ServerConnections) -> int:
    return int(connections.value("table_sizes", (list(TABLES),)))
