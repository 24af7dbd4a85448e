"""Commits: the ledger decides about a group of transactions under their locks, and one statement writes what passed.

Invariants: what a decision depends on is locked before it is read, and until the commit. The database computes every
seq, checksum, link and org again. After a lost connection the events are looked up by id, under the same locks, and
nothing is written twice. `shortcuts.py` has the commits that take one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import psycopg

from tallystick import errors
from tallystick.engines.postgres import batches, commands, damage, maintenance, statements, transfers, translate
from tallystick.engines.postgres.batches import PROVISIONAL
from tallystick.engines.postgres.connections import CONTROL, MAINTENANCE, ServerConnections
from tallystick.engines.postgres.inline import InlineCommit, require_drawn
from tallystick.engines.postgres.ledger_view import LedgerQueries, LockedView, of_another_org
from tallystick.engines.postgres.opener import Login
from tallystick.engines.postgres.shortcuts import Shortcuts
from tallystick.event import canonical, names
from tallystick.event.model import InDraft, InRow
from tallystick.store import leases
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.group_commit import commit_each, halves, in_groups
from tallystick.store.leases import Lease
from tallystick.store.ledger import Holder, Ledger
from tallystick.store.transfer import Received

_ATTEMPTS = 5


class Writer:
    """Commits through a handle's connections. `org` is the only org that it may write for, if there is one.

    `login` is who logged in. It may lack the roles that write control facts, or prune, erase, drop and forget.
    """

    def __init__(
        self,
        connections: ServerConnections,
        *,
        holder: Holder,
        clock: Callable[[], int],
        org: str | None = None,
        login: Login,
    ) -> None:
        self._connections = connections
        self._holder = holder
        self._clock = clock
        self._org = org
        self._login = login
        self.inline: InlineCommit | None = None
        self._shortcuts = Shortcuts(holder=holder, clock=clock, org=org)

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """An outcome for each transaction, durable before it is returned."""
        return in_groups(self._commit_group, list(transactions))

    def _commit_group(self, group: Sequence[Transaction]) -> list[Outcome]:
        """The outcomes of a group, even if the connection is lost meanwhile."""
        try:
            return self._commit_with_retries(group)
        except psycopg.Error as problem:
            if len(group) > 1 and translate.is_refused(problem):  # separately, so that one does not fail the others
                return commit_each(halves(group), self._commit_group)
            if not translate.is_lost(problem):
                refused = group[0].maintenance and maintenance.refusal(problem, group[0].maintenance)
                if refused and len(group) == 1:
                    return [refused]
                raise self._translated(problem) from problem
            lost = problem
        try:
            self._connections.renew()
            outcomes = self._commit_with_retries([_with_ids(transaction) for transaction in group], again=True)
        except (psycopg.Error, errors.Unavailable) as problem:
            reason = f"{' '.join(str(lost).split())}; and then: {problem}"
            raise errors.StoreFailed(operation="a commit", reason=reason) from lost
        return [_without_own_ids(outcome, transaction) for outcome, transaction in zip(outcomes, group, strict=True)]

    def _commit_with_retries(self, group: Sequence[Transaction], *, again: bool = False) -> list[Outcome]:
        """Try again after deadlocks and the like: the server rolled them back, so nothing happened."""
        for attempt in range(_ATTEMPTS):
            try:
                with self._connections.raw_connection() as connection:
                    return self._commit_once(connection, group, again)
            except translate.AGAIN:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    def _commit_once(
        self, connection: psycopg.Connection[Any], group: Sequence[Transaction], again: bool
    ) -> list[Outcome]:
        if self.inline is None and len(group) == 1 and not self._connections.pooled and not _is_control(group[0]):
            outcome = self._shortcuts.commit(connection, group[0], again=again)
            if outcome is not None:
                return [outcome]
        return self._commit_by_ledger(connection, group, again)

    def _translated(self, problem: psycopg.Error) -> errors.TallyError:
        refused = damage.refused(problem, self._connections)
        return refused or translate.of(problem, url=self._connections.url, waited_ms=self._connections.busy_ms)

    def receive(self, part: Received) -> None:
        """Write a part of another store's log."""
        self._login.require(MAINTENANCE, url=self._connections.url)
        transfers.write(self._connections, part, recorded=self._clock())

    def forget(self, before: int, limit: int) -> int:
        """Delete up to `limit` records of commands that took effect before a time."""
        self._login.require(MAINTENANCE, url=self._connections.url)
        with self._connections.transaction() as connection:
            connection.execute(statements.named("become_maintenance"))
            return _number(connection.execute(statements.named("forget_commands_before"), (before, limit)))

    def close(self) -> None:
        """Give the leases back. What cannot be given back is taken over once this process is gone."""
        with suppress(errors.TallyError):
            if self._holder.held:
                self.commit([Transaction([], release=tuple(self._holder.held))])
        leases.retire(self._holder.owner)

    def _commit_by_ledger(
        self, connection: psycopg.Connection[Any], group: Sequence[Transaction], again: bool
    ) -> list[Outcome]:
        """Decide about a group and write it in one database transaction, which takes two round trips."""
        inline = self.inline
        begin = self._beginning(group)
        try:
            view = LockedView(connection, LedgerQueries(group), begin=begin, alone=inline is not None)
            self._connections.require_same_history(connection)
            ledger = Ledger(view, next_position=PROVISIONAL, holder=self._holder)
            asked = [_remaining(transaction, view) for transaction in group] if again else group
            outcomes = [self._judge(ledger, view, transaction) for transaction in asked]
            promised = inline.store(connection, ledger.rows) if inline and ledger.rows else None
            first = self._write(connection, ledger, promised)
        except BaseException as problem:
            if translate.is_lost(problem):
                connection.close()
            elif not connection.closed:
                connection.rollback()
            raise
        ledger.committed()
        for stream, head in ledger.heads.items() if len(ledger.heads) == 1 else ():
            self._shortcuts.ends.learn(stream, head, first_seq=ledger.rows[0][InRow.seq])
        return [batches.placed(outcome, first) for outcome in outcomes]

    def _beginning(self, group: Sequence[Transaction]) -> Callable[[psycopg.Connection[Any]], None]:
        """How the transaction of a group begins: a role of its own writes control facts."""
        if not any(_is_control(transaction) for transaction in group) or CONTROL not in self._login.roles:
            return self._connections.begin

        def begin(connection: psycopg.Connection[Any]) -> None:
            self._connections.begin(connection)
            connection.execute(statements.named("set_local_setting"), ("role", CONTROL))

        return begin

    def _judge(self, ledger: Ledger, view: LockedView, transaction: Transaction) -> Outcome:
        try:
            if self._org is not None:
                self._require_own_org(self._org, view, transaction)
            if _is_control(transaction):
                self._login.require(CONTROL, url=self._connections.url)
            if transaction.maintenance is not None:
                if maintenance.needs_role(transaction.maintenance):
                    self._login.require(MAINTENANCE, url=self._connections.url)
                maintenance.require_named(transaction)
            return ledger.judge(transaction)
        except errors.TallyError as refusal:
            return refusal

    def _require_own_org(self, org: str, view: LockedView, transaction: Transaction) -> None:
        for write in transaction.writes:
            named = {canonical.decode(draft[InDraft.meta]).get("org") for draft in write.drafts}
            if write.stream in view.foreign or named != {org}:
                raise of_another_org(write, org)
        if transaction.command is not None and transaction.command.key.org != org:
            key = transaction.command.key
            raise errors.OrgMismatch(stream=f"command {key.key}", org=org, given=key.org)
        for stream in LedgerQueries([transaction]).streams:
            if stream in view.foreign:
                raise errors.OrgMismatch(stream=stream, org="another org", given=org)

    def _write(self, connection: psycopg.Connection[Any], ledger: Ledger, promised: int | None) -> int:
        """Write what passed, and commit. Returns the position of the first event, as promised to inline projections."""
        written = None
        with self._connections.committing(connection):
            if ledger.rows:
                name, values = batches.written_by(ledger, recorded=self._clock())
                written = connection.execute(statements.named(name), values, prepare=True)
                if promised is not None:
                    require_drawn(_number(written), promised)
            if ledger.sources:
                marks = (*map(list, zip(*ledger.sources, strict=True)), list(ledger.sources.values()))
                connection.execute(statements.named("move_sources"), marks)
            for lease in ledger.leases:
                connection.execute(statements.named("put_lease"), _lease_row(lease))
            if ledger.commands:
                connection.execute(statements.named("write_commands"), commands.values_of(ledger.commands))
            if ledger.maintenance is not None:
                maintenance.maintain(connection, ledger.maintenance, ledger.rows)
        if written is None:
            return 0
        return _number(written) if promised is None else promised


def _number(answer: psycopg.Cursor[Any]) -> int:
    ((number,),) = answer.fetchall()
    return int(number)


def _is_control(transaction: Transaction) -> bool:
    """Whether a transaction writes control facts, or keeps the snapshot that an earlier one names."""
    keeps = transaction.maintenance and transaction.maintenance.snapshots
    return bool(keeps) or any(write.stream.startswith(names.RESERVED) for write in transaction.writes)


def _lease_row(lease: Lease) -> tuple[Any, ...]:
    owner = lease.owner
    if owner is None:
        return (lease.stream, lease.number, None, None, None, None)
    return (lease.stream, lease.number, owner.host, owner.pid, owner.started, owner.handle)


def _with_ids(transaction: Transaction) -> Transaction:
    """The same transaction as a retry, which confirms what is stored and writes the rest."""
    writes = [msgspec.structs.replace(write, ids_given=True) for write in transaction.writes]
    return msgspec.structs.replace(transaction, writes=writes)


def _remaining(transaction: Transaction, view: LockedView) -> Transaction:
    """What a retry still has to do. If all events are stored, everything else of the transaction was committed too.

    If the events were stored before the first attempt, the command has no record, and did not take effect.
    """
    ids = [draft[InDraft.id] for write in transaction.writes for draft in write.drafts]
    done = bool(ids) and all(view.find(id_) is not None for id_ in ids)
    if not done or (transaction.command is not None and view.command(transaction.command.key) is None):
        return transaction
    return msgspec.structs.replace(transaction, require=(), command=None, maintenance=None)


def _without_own_ids(outcome: Outcome, transaction: Transaction) -> Outcome:
    """The outcome as if the connection had lasted: events whose ids were minted here do not count as stored before."""
    if isinstance(outcome, errors.TallyError):
        return outcome
    pairs = zip(outcome, transaction.writes, strict=True)
    return [done if write.ids_given else msgspec.structs.replace(done, stored=0) for done, write in pairs]
