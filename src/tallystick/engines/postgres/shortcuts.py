"""Commits in one round trip, if a row of `python -m bench` pays for them. The ledger decides about all others.

- One event, decided and written by `append_event`, pays in "postgres: single appends", against eventsourcing and a raw
  INSERT: by the ledger it takes 1.3 times as long, and three times the client's processor time. With its command
  (`append_command`) it costs no round trip more (CP-06), and neither does one with a condition (`append_unless`).
- A batch to a stream whose end the handle can guess pays in "postgres: batches of 1,000, everything on": the ledger
  decides with the guess, and `append_batch` compares it under the stream's lock. Without it, client and server spend 3%
  more time on such a batch, and 70% more on a batch of ten.

Each way returns None if the transaction needs a closer look. Nothing is written then.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import errors as reported
from psycopg import generators
from psycopg.pq import ExecStatus, Format

from tallystick import errors
from tallystick.engines.postgres import batches, commands, conditions, statements, translate
from tallystick.engines.postgres.ledger_view import LedgerAnswers, of_another_org
from tallystick.store import expectation
from tallystick.store.commit import Appended, Outcome, Transaction, Write
from tallystick.store.conditions import refusal
from tallystick.store.idempotency import CommandRecord
from tallystick.store.ledger import NO_HEAD, Head, Holder, Ledger, only_writes
from tallystick.store.query import Condition

_STREAMS_MAX = 1024
_SURE, _LIKELY = 3, 2  # how often, lately, streams that the handle did not know turned out to be new
_BINARY = Format.BINARY


class Shortcuts:
    """The short ways of one writer. `org` is the only org that it may write for, if there is one."""

    def __init__(self, *, holder: Holder, clock: Callable[[], int], org: str | None) -> None:
        self._holder = holder
        self._clock = clock
        self._org = org
        self.ends = StreamEndCache()
        self._append_event = prepared("append_event")
        self._append_command = prepared("append_command")
        self._append_unless = prepared("append_unless")
        self._append_batch = prepared("append_batch")

    def commit(self, connection: psycopg.Connection[Any], transaction: Transaction, *, again: bool) -> Outcome | None:
        """The outcome of a transaction; None if the ledger has to decide. `again`: after the connection was lost."""
        outcome = None
        if _is_one_event(transaction) and not (again and transaction.command):
            outcome = self._one_event(connection, transaction.writes[0], transaction.command, transaction.unless)
        if outcome is None and not again and self._org is None and _is_one_batch(transaction):
            outcome = self._one_batch(connection, transaction)
        return outcome

    def _one_event(
        self,
        connection: psycopg.Connection[Any],
        write: Write,
        command: CommandRecord | None,
        unless: Condition | None,
    ) -> Outcome | None:
        handle, number = None, None
        if write.is_leased:
            handle, number = self._holder.owner.handle, self._holder.held.get(write.stream)
            if number is None:
                return None
        values = _parameters(write, recorded=self._clock(), handle=handle, number=number)
        if unless is not None:
            row = self._append_unless.row(connection, values + conditions.parameters(unless))
        elif command is None:
            row = self._append_event.row(connection, values)
        else:
            row = self._append_command.row(connection, values + commands.parameters(command))
        status, seq, position, link, org = row
        if status == b"done":
            assert seq is not None
            assert position is not None
            assert link is not None
            at, place = int.from_bytes(seq, "big"), int.from_bytes(position, "big")
            self.ends.moved(write.stream, at, link, write.orgs)
            return [Appended(write.stream, at, at, place, place, link)]
        if status == b"conflict":
            assert seq is not None
            return errors.Conflict(stream=write.stream, expected=write.expected, actual=int.from_bytes(seq, "big"))
        if status == b"unless":
            assert unless is not None
            assert position is not None
            return refusal(unless, int.from_bytes(position, "big"))
        if status == b"org":
            assert org is not None
            return errors.OrgMismatch(stream=write.stream, org=org.decode(), given=min(write.orgs))
        if status == b"foreign":
            assert self._org is not None  # a session without an org sees every stream
            return of_another_org(write, self._org)
        return _repeated(command) if command is not None and status == b"repeated" else None

    def _one_batch(self, connection: psycopg.Connection[Any], transaction: Transaction) -> Outcome | None:
        write = transaction.writes[0]
        head = self.ends.guess(write)
        if head is None:
            return None
        ledger = Ledger(LedgerAnswers({write.stream: head}), next_position=batches.PROVISIONAL, holder=self._holder)
        try:
            done = ledger.judge(transaction)
            values = batches.of_one_stream(ledger.rows, self._clock())
            (first,) = self._append_batch.row(connection, batches.in_binary(values))
        except errors.TallyError:
            return None  # the guess may be the reason: what is stored decides
        except psycopg.DatabaseError as problem:
            if problem.sqlstate != translate.REFUSED_BY_FUNCTION:
                raise
            first = None
        if first is None:
            self.ends.forget(write.stream)
            return None
        self.ends.learn(write.stream, ledger.heads[write.stream], first_seq=head.seq + 1)
        return batches.placed(done, int.from_bytes(first, "big"))


def _is_one_event(transaction: Transaction) -> bool:
    writes = transaction.writes
    alone = len(writes) == 1 and len(writes[0].drafts) == 1 and not writes[0].sources and writes[0].after_link is None
    more = transaction.acquire or transaction.release or transaction.require or transaction.maintenance is not None
    both = transaction.command is not None and transaction.unless is not None
    return alone and not more and not both


def _is_one_batch(transaction: Transaction) -> bool:
    """Whether a transaction is a batch to one stream and nothing more, so that it depends only on the stream's end."""
    if len(transaction.writes) != 1 or not only_writes(transaction):
        return False
    write = transaction.writes[0]
    return not (write.ids_given or write.sources or write.is_leased or write.after_link is not None)


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


def _repeated(command: CommandRecord) -> errors.CommandRepeated:
    key = command.key
    return errors.CommandRepeated(org=key.org, actor=key.actor, endpoint=key.endpoint, key=key.key)


class StreamEndCache:
    """The ends of the streams that this handle wrote last: guesses, on which no answer is based.

    The database compares each guess with the stream under its lock. A wrong one writes nothing and costs a second look.
    A stream that others write too is not guessed again.
    """

    def __init__(self) -> None:
        self._heads: dict[str, Head | None] = {}  # None: others write the stream
        self._lock = threading.Lock()
        self._news = _LIKELY

    def guess(self, write: Write) -> Head | None:
        """Where the stream of a write ends; None without a guess, or if the write expects another end."""
        stream, expected = write.stream, write.expected
        if stream not in self._heads:
            likely = expected == expectation.NO_STREAM or (expected == expectation.ANY and self._news >= _LIKELY)
            return NO_HEAD if likely else None
        head = self._heads.get(stream)
        return head if head is not None and expected in (expectation.ANY, head.seq) else None

    def learn(self, stream: str, head: Head, *, first_seq: int) -> None:
        """Note that a commit of this handle, whose first event had `first_seq`, moved a stream."""
        with self._lock:
            if stream not in self._heads:
                self._news = min(_SURE, self._news + 1) if first_seq == 1 else max(0, self._news - 1)
                if len(self._heads) >= _STREAMS_MAX:
                    del self._heads[next(iter(self._heads))]
            elif self._heads[stream] is None:
                return
            self._heads[stream] = head

    def moved(self, stream: str, seq: int, link: bytes, orgs: frozenset[str]) -> None:
        """As `learn`, for a single event, which says nothing about streams that are not known."""
        with self._lock:
            if (head := self._heads.get(stream)) is not None:
                self._heads[stream] = Head(seq, link, head.org or min(orgs, default=None))

    def forget(self, stream: str) -> None:
        """Note that a stream did not end where it was guessed to."""
        with self._lock:
            if stream in self._heads:
                self._heads[stream] = None


class Prepared:
    """A statement that is prepared once per connection and sent with its parameters in binary, as they are.

    A cursor finds out in each call how to send each value and how to read the answer; here both are known.
    Format: numbers big-endian, with as many bytes as their type has; texts in UTF-8; ids and bytes as they are.
    """

    def __init__(self, name: str, query: str) -> None:
        self._name = name.encode()
        self._query = query.encode()
        self._formats = [_BINARY] * len(set(re.findall(r"\$\d+", query)))
        self._known: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()

    def row(self, connection: psycopg.Connection[Any], values: Sequence[bytes | None]) -> list[bytes | None]:
        """The only row of the answer, as bytes. Errors are psycopg's, as those of a cursor."""
        if connection in self._known:
            try:
                return self._sent(connection, values)
            except reported.InvalidSqlStatementName:  # psycopg deallocates all after a rollback; nothing was run
                self._known.discard(connection)
        connection.pgconn.send_prepare(self._name, self._query)
        self._answer(connection, ExecStatus.COMMAND_OK)
        self._known.add(connection)
        return self._sent(connection, values)

    def _sent(self, connection: psycopg.Connection[Any], values: Sequence[bytes | None]) -> list[bytes | None]:
        connection.pgconn.send_query_prepared(self._name, values, self._formats, _BINARY)
        answer = self._answer(connection, ExecStatus.TUPLES_OK)
        return [answer.get_value(0, column) for column in range(answer.nfields)]

    def _answer(self, connection: psycopg.Connection[Any], wanted: ExecStatus) -> Any:
        answer = connection.wait(generators.execute(connection.pgconn))[-1]
        if answer.status != wanted:
            raise reported.error_from_result(answer, encoding=connection.info.encoding)
        return answer


def prepared(name: str) -> Prepared:
    """The statement in `sql/queries/<name>.sql`, with `$1`, `$2` … for its parameters, whose types it names itself."""
    return Prepared(f"tally_{name}", statements.named(name))
