"""Commits: one event in one statement, everything else judged by the ledger.

Invariants: what a judgement rests on is locked before it is read and until the commit, or, where a stream's end was
guessed, is looked at under its lock by the statement that writes; the database computes every seq, checksum, link and
org again. After a lost connection the outcome is looked up by event id, under the same locks: nothing is sent blindly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import psycopg

from tallystick import errors
from tallystick.engines.postgres import (
    batches,
    commands,
    damage,
    maintenance,
    prepared,
    statements,
    transfers,
    translate,
)
from tallystick.engines.postgres.connections import CONTROL, MAINTENANCE, Connections
from tallystick.engines.postgres.inline import InlineCommit, require_drawn
from tallystick.engines.postgres.ledger_view import LedgerAnswers, LedgerQueries, LockedView
from tallystick.engines.postgres.opener import Login
from tallystick.engines.postgres.stream_ends import StreamEndCache
from tallystick.event import canonical, limits, names
from tallystick.store import leases
from tallystick.store.combining import apart, by_bytes, commit_each, halves
from tallystick.store.commit import Appended, Outcome, Transaction, Write
from tallystick.store.idempotency import CommandRecord
from tallystick.store.leases import Lease
from tallystick.store.ledger import Holder, Ledger, only_writes
from tallystick.store.transfer import Received

_ATTEMPTS = 5
_REFUSED = "TL409"  # what the functions that write raise
_BELOW = -(1 << 62)  # where the ledger counts from: a position of its own making is negative until it is drawn


class Writer:
    """Commits through a handle's connections. `org` is the only org it may write for, if there is one.
    `login` is who logged in: it may lack the roles that write control facts, or prune, erase, drop and forget.
    """

    def __init__(
        self,
        connections: Connections,
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
        self._ends = StreamEndCache()
        self._append, self._append_with_command, self._append_batch = map(
            prepared.named, ("append_event", "append_command", "append_batch")
        )

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """An outcome for each transaction, durable before it is returned."""
        return commit_each(by_bytes(list(transactions), limits.COMMIT_BYTES_MAX), partial(apart, self._settled))

    def _settled(self, group: Sequence[Transaction]) -> list[Outcome]:
        """The outcomes of a group, also if the connection is lost on the way."""
        try:
            return self._attempts(group)
        except psycopg.Error as problem:
            if len(group) > 1 and translate.is_refused(problem):  # apart, so that one does not fail the others
                return commit_each(halves(group), self._settled)
            if not translate.is_lost(problem):
                refused = group[0].maintenance and maintenance.refusal(problem, group[0].maintenance)
                if refused and len(group) == 1:
                    return [refused]
                raise self._translated(problem) from problem
            lost = problem
        try:
            self._connections.renew()
            outcomes = self._attempts([_with_ids(transaction) for transaction in group], again=True)
        except (psycopg.Error, errors.Unavailable) as problem:
            reason = f"{' '.join(str(lost).split())}; and then: {problem}"
            raise errors.StoreFailed(operation="a commit", reason=reason) from lost
        return [_as_first(outcome, transaction) for outcome, transaction in zip(outcomes, group, strict=True)]

    def _attempts(self, group: Sequence[Transaction], *, again: bool = False) -> list[Outcome]:
        """Deadlocks and the like were rolled back by the server: nothing happened, so trying again is safe."""
        for attempt in range(_ATTEMPTS):
            try:
                with self._connections.given() as connection:
                    return self._once(connection, group, again)
            except translate.AGAIN:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    def _once(self, connection: psycopg.Connection[Any], group: Sequence[Transaction], again: bool) -> list[Outcome]:
        alone = self.inline is None and len(group) == 1 and not self._connections.pooled and not _is_control(group[0])
        if alone and _is_one_event(group[0]) and not (again and group[0].command):
            outcome = self._append_event(connection, group[0].writes[0], group[0].command)
            if outcome is not None:
                return [outcome]
        if alone and not again and self._org is None and _is_plain(group[0]):
            guessed = self._guessed(connection, group[0])
            if guessed is not None:
                return [guessed]
        return self._judged(connection, group, again)

    def _translated(self, problem: psycopg.Error) -> errors.TallyError:
        refused = damage.refused(problem, self._connections)
        return refused or translate.of(problem, url=self._connections.url, waited_ms=self._connections.busy_ms)

    def receive(self, part: Received) -> None:
        """Take over a part of another store's log."""
        self._require(MAINTENANCE)
        transfers.write(self._connections, part, recorded=self._clock())

    def forget(self, before: int, limit: int) -> int:
        """Drop up to `limit` records of commands that were made before a time."""
        self._require(MAINTENANCE)
        with self._connections.transaction() as connection:
            connection.execute(statements.named("become_maintenance"))
            row = connection.execute(statements.named("forget_commands_before"), (before, limit)).fetchone()
        return int(row[0]) if row else 0

    def _require(self, role: str) -> None:
        if role not in self._login.roles:
            reason = f"the role that logs in is not a member of {role}"
            raise errors.NotPermitted(url=self._connections.url, reason=reason)

    def close(self) -> None:
        """Give the leases back. What cannot be given back is taken over once this process is gone."""
        with suppress(errors.TallyError):
            if self._holder.held:
                self.commit([Transaction([], release=tuple(self._holder.held))])
        leases.retire(self._holder.owner)

    # --- one event -------------------------------------------------------------------------------------------------

    def _append_event(
        self, connection: psycopg.Connection[Any], write: Write, command: CommandRecord | None
    ) -> Outcome | None:
        """The outcome of a single event, with its command or without; None if it takes a closer look."""
        handle, number = None, None
        if write.is_leased:
            handle, number = self._holder.owner.handle, self._holder.held.get(write.stream)
            if number is None:
                return None
        values = _parameters(write, recorded=self._clock(), handle=handle, number=number)
        if command is None:
            row = self._append.row(connection, values)
        else:
            row = self._append_with_command.row(connection, values + commands.parameters(command))
        status, seq, position, link, org = row
        if status == b"done":
            assert seq is not None
            assert position is not None
            assert link is not None
            at, place = int.from_bytes(seq, "big"), int.from_bytes(position, "big")
            self._ends.moved(write.stream, at, link, write.orgs)
            return [Appended(write.stream, at, at, place, place, link)]
        if status == b"conflict":
            assert seq is not None
            return errors.Conflict(stream=write.stream, expected=write.expected, actual=int.from_bytes(seq, "big"))
        if status == b"org":
            assert org is not None
            return errors.OrgMismatch(stream=write.stream, org=org.decode(), given=min(write.orgs))
        if status == b"foreign":
            return self._foreign(write, write.stream)
        return _repeated(command) if command is not None and status == b"repeated" else None

    # --- a batch to a stream whose end is known ---------------------------------------------------------------------

    def _guessed(self, connection: psycopg.Connection[Any], transaction: Transaction) -> Outcome | None:
        """The outcome of a batch that is written without a question; None if it takes one."""
        write = transaction.writes[0]
        head = self._ends.guess(write)
        if head is None:
            return None
        ledger = Ledger(LedgerAnswers({write.stream: head}), next_position=_BELOW, holder=self._holder)
        try:
            done = ledger.judge(transaction)
            values = batches.of_one_stream(ledger.rows, self._clock())
            (first,) = self._append_batch.row(connection, batches.in_binary(values))
        except errors.TallyError:
            return None  # it is refused again by what is stored
        except psycopg.DatabaseError as problem:
            if problem.sqlstate != _REFUSED:
                raise
            first = None
        if first is None:
            self._ends.forget(write.stream)
            return None
        self._ends.learn(write.stream, ledger.heads[write.stream], first_seq=head.seq + 1)
        return _placed(done, int.from_bytes(first, "big"))

    # --- everything else -------------------------------------------------------------------------------------------

    def _judged(self, connection: psycopg.Connection[Any], group: Sequence[Transaction], again: bool) -> list[Outcome]:
        """Judge and write a group in one database transaction: two round trips."""
        inline = self.inline
        begin = self._beginning(group)
        try:
            view = LockedView(connection, LedgerQueries(group), begin=begin, alone=inline is not None)
            self._connections.require_same_history(connection)
            ledger = Ledger(view, next_position=_BELOW, holder=self._holder)
            asked = [_left_of(transaction, view) for transaction in group] if again else group
            outcomes = [self._judge(ledger, view, transaction) for transaction in asked]
            told = inline.store(connection, ledger.rows, below=_BELOW) if inline and ledger.rows else None
            first = self._write(connection, ledger, told)
        except BaseException as problem:
            if translate.is_lost(problem):
                connection.close()
            elif not connection.closed:
                connection.rollback()
            raise
        ledger.committed()
        for stream, head in ledger.heads.items() if len(ledger.heads) == 1 else ():
            self._ends.learn(stream, head, first_seq=ledger.rows[0][2])
        return [_placed(outcome, first) for outcome in outcomes]

    def _beginning(self, group: Sequence[Transaction]) -> Callable[[psycopg.Connection[Any]], None]:
        """How the transaction of a group begins: control facts are written by a role of their own."""
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
                self._require(CONTROL)
            if transaction.maintenance is not None:
                if maintenance.needs_role(transaction.maintenance):
                    self._require(MAINTENANCE)
                maintenance.require_named(transaction)
            return ledger.judge(transaction)
        except errors.TallyError as refusal:
            return refusal

    def _require_own_org(self, org: str, view: LockedView, transaction: Transaction) -> None:
        for write in transaction.writes:
            named = {canonical.decode(draft[5]).get("org") for draft in write.drafts}
            if write.stream in view.foreign or named != {org}:
                raise self._foreign(write, write.stream)
        if transaction.command is not None and transaction.command.key.org != org:
            key = transaction.command.key
            raise errors.OrgMismatch(stream=f"command {key.key}", org=org, given=key.org)
        for stream in LedgerQueries([transaction]).streams:
            if stream in view.foreign:
                raise errors.OrgMismatch(stream=stream, org="another org", given=org)

    def _foreign(self, write: Write, stream: str) -> errors.OrgMismatch:
        """Refuse without telling anything about the other org, not even where its stream is."""
        assert self._org is not None  # a session that is bound to no org sees every stream
        if write.orgs == {self._org}:
            return errors.OrgMismatch(stream=stream, org="another org", given=self._org)
        return errors.OrgMismatch(stream=stream, org=self._org, given=min(write.orgs or {"no org"}))

    def _write(self, connection: psycopg.Connection[Any], ledger: Ledger, told: int | None) -> int:
        """Write what passed, and commit; the position of the first event, which inline projections were told."""
        written = None
        with connection.pipeline():
            if ledger.rows:
                name, values = batches.written_by(ledger, recorded=self._clock())
                written = connection.execute(statements.named(name), values, prepare=True)
                if told is not None:
                    require_drawn(_drawn(written), told)
            if ledger.sources:
                marks = (*map(list, zip(*ledger.sources, strict=True)), list(ledger.sources.values()))
                connection.execute(statements.named("move_sources"), marks)
            for lease in ledger.leases:
                connection.execute(statements.named("put_lease"), _lease_row(lease))
            if ledger.commands:
                connection.execute(statements.named("write_commands"), commands.values_of(ledger.commands))
            if ledger.maintenance is not None:
                maintenance.maintain(connection, ledger.maintenance, ledger.rows)
            connection.execute("COMMIT")
        if written is None:
            return 0
        return _drawn(written) if told is None else told


def _drawn(written: psycopg.Cursor[Any]) -> int:
    row = written.fetchone()
    assert row is not None
    return int(row[0])


def _is_control(transaction: Transaction) -> bool:
    """Whether a transaction writes control facts, or keeps the snapshot that an earlier one tells of."""
    keeps = transaction.maintenance and transaction.maintenance.snapshots
    return bool(keeps) or any(write.stream.startswith(names.RESERVED) for write in transaction.writes)


def _is_plain(transaction: Transaction) -> bool:
    """Whether a transaction is a batch to one stream and nothing else, so that its end is all that it depends on."""
    if len(transaction.writes) != 1 or not only_writes(transaction):
        return False
    write = transaction.writes[0]
    return not (write.ids_given or write.sources or write.is_leased or write.after_link is not None)


def _is_one_event(transaction: Transaction) -> bool:
    writes = transaction.writes
    alone = len(writes) == 1 and len(writes[0].drafts) == 1 and not writes[0].sources and writes[0].after_link is None
    more = transaction.acquire or transaction.release or transaction.require or transaction.maintenance is not None
    return alone and not more


def _parameters(write: Write, *, recorded: int, handle: str | None, number: int | None) -> tuple[bytes | None, ...]:
    """A single event as `append_event` takes it."""
    kind, version, id_, time, payload, meta, _, signature = write.drafts[0]
    return (
        write.stream.encode(),
        write.expected.to_bytes(8, "big", signed=True),
        kind.encode(),
        version.to_bytes(4, "big"),
        id_,
        time.to_bytes(8, "big"),
        payload,
        meta,
        signature,
        recorded.to_bytes(8, "big", signed=True),
        b"\x01" if write.ids_given else b"\x00",
        None if handle is None else handle.encode(),
        None if number is None else number.to_bytes(8, "big"),
    )


def _lease_row(lease: Lease) -> tuple[Any, ...]:
    owner = lease.owner
    if owner is None:
        return (lease.stream, lease.number, None, None, None, None)
    return (lease.stream, lease.number, owner.host, owner.pid, owner.started, owner.handle)


def _placed(outcome: Outcome, first: int) -> Outcome:
    """An outcome with the positions that were drawn."""
    if isinstance(outcome, errors.TallyError):
        return outcome

    def drawn(position: int) -> int:
        return position - _BELOW + first if position < 0 else position

    return [
        msgspec.structs.replace(
            done, first_position=drawn(done.first_position), last_position=drawn(done.last_position)
        )
        for done in outcome
    ]


def _with_ids(transaction: Transaction) -> Transaction:
    """The same transaction as a retry: what is stored of it is confirmed, and only the rest is written."""
    writes = [msgspec.structs.replace(write, ids_given=True) for write in transaction.writes]
    return msgspec.structs.replace(transaction, writes=writes)


def _left_of(transaction: Transaction, view: LockedView) -> Transaction:
    """What a retry has still to do. If all events are stored, they were committed with everything that came with them.

    Events that were there before the first attempt do not count as this command's: it has a record if it took effect.
    """
    ids = [draft[2] for write in transaction.writes for draft in write.drafts]
    done = bool(ids) and all(view.find(id_) is not None for id_ in ids)
    if not done or (transaction.command is not None and view.command(transaction.command.key) is None):
        return transaction
    return msgspec.structs.replace(transaction, require=(), command=None, maintenance=None)


def _repeated(command: CommandRecord) -> errors.CommandRepeated:
    key = command.key
    return errors.CommandRepeated(org=key.org, actor=key.actor, endpoint=key.endpoint, key=key.key)


def _as_first(outcome: Outcome, transaction: Transaction) -> Outcome:
    """What the caller would have been told had the connection lasted: ids that were minted here were not there."""
    if isinstance(outcome, errors.TallyError):
        return outcome
    pairs = zip(outcome, transaction.writes, strict=True)
    return [done if write.ids_given else msgspec.structs.replace(done, stored=0) for done, write in pairs]
