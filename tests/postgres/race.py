"""The race suite: writers that commit out of order, and readers that must see everything exactly once.

Eight writers pause inside their transactions and roll some of them back. Server processes are killed, and a transaction
hangs in another database. Two readers follow, one of them as a tenant. `NaiveReader` and `SnapshotFence` are the
readers that people write first. They must lose events here, otherwise this suite proves nothing.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Protocol

import msgspec
import psycopg

import tallystick
from tallystick import NewEvent, errors
from tallystick.event import chain, ids
from tallystick.event.model import Draft
from tallystick.testing.postgres import with_database

ORGS = ("acme", "bolt")
WATCHED = "acme"
_PAUSE_S = 0.004
_LONG_PAUSE = (0.05, 15)  # so often a pause is so many times longer: longer than the other transactions live
_GIVE_UP_S = 120.0

_APPEND = """SELECT status FROM tally.append_event(
    %s, -1, 'race.ran', 1, %s::uuid, 0, '{}', %s, NULL, 0, false, NULL, NULL)"""
_INSERT = """INSERT INTO tally.events
    (position, stream, seq, type, version, id, time, payload, meta, checksum, link, recorded, org)
    SELECT tally.draw(1), %s, %s, 'race.ran', 1, %s::uuid, 0, '{}', %s, %s, %s,
    CASE WHEN pg_sleep(%s) IS NULL THEN 1 ELSE 0 END, %s"""
_COPY = (
    "COPY tally.events (stream, seq, type, version, id, time, payload, meta, checksum, link, recorded, org) FROM STDIN"
)
_STORED = "SELECT position, org FROM tally.events ORDER BY position"


class Race(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a race. `idle` leaves a transaction open in another database all the time."""

    events: int = 10_000
    writers: int = 8
    rollbacks: float = 0.1
    kill_every_s: float = 0.25
    idle: bool = True
    seed: int = 1


class Finish(msgspec.Struct):
    """The events that were stored, and those that each reader saw, by position."""

    stored: list[int]
    stored_of_tenant: list[int]
    seen: list[int]
    seen_of_tenant: list[int]
    killed: int

    @property
    def missed(self) -> int:
        """The number of events that the readers never saw."""
        mine = len(set(self.stored) - set(self.seen))
        return mine + len(set(self.stored_of_tenant) - set(self.seen_of_tenant))

    @property
    def is_exact(self) -> bool:
        """Whether both readers saw what was stored, in order, each event once."""
        return self.seen == self.stored and self.seen_of_tenant == self.stored_of_tenant


class Reader(Protocol):
    """Follows the log. Returns the positions after `after`, and where to continue."""

    def page(self, after: int) -> tuple[list[int], int]: ...
    def close(self) -> None: ...


class StoreReader:
    """Our own reader; with an org, as that tenant."""

    def __init__(self, url: str, org: str | None) -> None:
        options: dict[str, Any] = {} if org is None else {"org": org}
        self._store = tallystick.open(url, readonly=True, **options)

    def page(self, after: int) -> tuple[list[int], int]:
        page = self._store.read(after=after, limit=500)
        return [event.position for event in page.events], page.through

    def close(self) -> None:
        self._store.close()


class NaiveReader:
    """WRONG: everything visible after the last position seen."""

    def __init__(self, url: str, org: str | None) -> None:
        self._org = org
        self._connection = psycopg.connect(url, autocommit=True)

    def page(self, after: int) -> tuple[list[int], int]:
        found = self._visible(after, 1 << 62)
        return found, found[-1] if found else after

    def _visible(self, after: int, until: int) -> list[int]:
        query = "SELECT position, org FROM tally.events WHERE position > %s AND position <= %s ORDER BY position"
        rows = self._connection.execute(query, (after, until)).fetchall()
        return [position for position, org in rows if self._org in (None, org)]

    def close(self) -> None:
        self._connection.close()


class SnapshotFence(NaiveReader):
    """WRONG: every position assigned so far, once no transaction runs that is older than the end of the snapshot.

    A transaction gets its number with its first write. That can be after it was assigned a position.
    """

    def __init__(self, url: str, org: str | None) -> None:
        super().__init__(url, org)
        self._head = 0
        self._pending: tuple[int, int] | None = None

    def page(self, after: int) -> tuple[list[int], int]:
        if self._pending is None:
            query = "SELECT last_value, pg_snapshot_xmax(pg_current_snapshot())::text::bigint FROM tally.positions"
            row = self._connection.execute(query).fetchone()
            assert row is not None
            self._pending = (row[0], row[1])
        row = self._connection.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint").fetchone()
        assert row is not None
        if row[0] >= self._pending[1]:
            self._head, self._pending = self._pending[0], None
        return self._visible(after, self._head), max(after, self._head)


# --- writers ---------------------------------------------------------------------------------------------------------


class _Writer:
    """One writer with its own streams. It takes positions, waits a moment, and commits or rolls back."""

    def __init__(self, url: str, race: Race, number: int, stop: Callable[[], bool]) -> None:
        self.url = url
        self.race = race
        self.number = number
        self.org = ORGS[number % len(ORGS)]
        self.meta = f'{{"org":"{self.org}"}}'
        self.dice = random.Random(race.seed * 1000 + number)
        self.stop = stop
        self.seq, self.link = 0, chain.GENESIS

    @property
    def stream(self) -> str:
        return f"race/{type(self).__name__.lower().strip('_')}-{self.number}"

    def pause_s(self) -> float:
        """How long to wait in the middle of a transaction."""
        often, factor = _LONG_PAUSE
        return self.dice.random() * _PAUSE_S * (factor if self.dice.random() < often else 1)

    def run(self) -> None:
        """Append until enough is stored, even if the connection is killed."""
        while not self.stop():
            with suppress(psycopg.OperationalError), psycopg.connect(self.url) as connection:
                self.seq, self.link = self._end(connection)
                while not self.stop():
                    self._transaction(connection)

    def _end(self, connection: psycopg.Connection[Any]) -> tuple[int, bytes]:
        query = "SELECT seq, link FROM tally.events WHERE stream = %s ORDER BY seq DESC LIMIT 1"
        row = connection.execute(query, (self.stream,)).fetchone()
        connection.rollback()
        return row or (0, chain.GENESIS)

    def _transaction(self, connection: psycopg.Connection[Any]) -> None:
        before = self.seq, self.link
        self.write(connection)
        time.sleep(self.pause_s())
        if self.dice.random() < self.race.rollbacks:
            connection.rollback()
            self.seq, self.link = before
        else:
            connection.commit()

    def write(self, connection: psycopg.Connection[Any]) -> None:
        """Write some events in the open transaction."""
        raise NotImplementedError

    def next_event(self) -> tuple[bytes, bytes, bytes]:
        """The id, checksum and link of the next event of this writer's stream."""
        (id_,) = ids.default.mint(1, time_ns=time.time_ns())
        checksum = chain.checksum(b"{}")
        draft: Draft = ("race.ran", 1, id_, 0, b"{}", self.meta.encode(), checksum, None)
        ((*_, link, _),) = chain.extend(self.stream, [draft], seq=self.seq, position=0, previous=self.link)
        self.seq, self.link = self.seq + 1, link
        return id_, checksum, link


class _ByFunction(_Writer):
    """Like a service: one event after the other in one transaction."""

    def write(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("SET LOCAL ROLE tally_app")
        for _ in range(self.dice.randint(1, 4)):
            (id_,) = ids.default.mint(1, time_ns=time.time_ns())
            connection.execute(_APPEND, (self.stream, id_.hex(), self.meta))
            time.sleep(self.dice.random() * _PAUSE_S)


class _ByInsert(_Writer):
    """The owner, with a plain INSERT that waits after taking its position."""

    def write(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("SET LOCAL ROLE tally_owner")
        id_, checksum, link = self.next_event()
        values = (self.stream, self.seq, id_.hex(), self.meta, checksum, link, self.pause_s(), self.org)
        connection.execute(_INSERT, values)


class _ByCopy(_Writer):
    """A superuser, with COPY: row-level security allows nobody else."""

    def write(self, connection: psycopg.Connection[Any]) -> None:
        with connection.cursor().copy(_COPY) as copy:
            for _ in range(self.dice.randint(1, 5)):
                id_, checksum, link = self.next_event()
                hexes = (f"\\x{checksum.hex()}", f"\\x{link.hex()}")
                copy.write_row(
                    (self.stream, self.seq, "race.ran", 1, id_.hex(), 0, "{}", self.meta, *hexes, 0, self.org)
                )
                time.sleep(self.dice.random() * _PAUSE_S / 4)


class _ByStore(_Writer):
    """Through the store: batches over two streams. It finds out their outcome if its connection is killed."""

    def run(self) -> None:
        with tallystick.open(self.url) as store:
            while not self.stop():
                size = self.dice.randint(1, 5)
                parts = [
                    (f"{self.stream}-{half}", [NewEvent("race.ran", {}, meta={"org": self.org})] * size, -1)
                    for half in (1, 2)
                ]
                with suppress(errors.Unavailable):
                    store.append_all(parts)
                time.sleep(self.dice.random() * _PAUSE_S)


_KINDS: tuple[type[_Writer], ...] = (_ByFunction, _ByInsert, _ByCopy, _ByStore)


# --- the race --------------------------------------------------------------------------------------------------------


def run(url: str, race: Race, *, reader: Callable[[str, str | None], Reader] = StoreReader) -> Finish:
    """Race writers against two readers on a new store at `url`, with a role that may do everything."""
    tallystick.open(url).close()
    enough, done = threading.Event(), threading.Event()
    seen: dict[str | None, list[int]] = {None: [], WATCHED: []}
    killed: list[int] = []
    kinds = [_KINDS[number] if number < len(_KINDS) else _ByFunction for number in range(race.writers)]
    writers = [kind(url, race, number, enough.is_set) for number, kind in enumerate(kinds)]
    with _idle_transaction(url) if race.idle else nullcontext():
        readers = [RaceThread(_follow, url, reader, org, seen[org], done) for org in seen]
        threads = [RaceThread(writer.run) for writer in writers]
        watcher = RaceThread(_watch, url, race, enough, killed)
        for thread in (*threads, watcher):
            thread.finish()
        stored = _stored(url)
        done.set()
        for follower in readers:
            follower.finish()
    mine = [position for position, org in stored if org == WATCHED]
    return Finish([position for position, _ in stored], mine, seen[None], seen[WATCHED], len(killed))


class RaceThread:
    """A thread whose failure fails the test."""

    def __init__(self, work: Callable[..., None], *values: Any) -> None:
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work, values), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[..., None], values: tuple[Any, ...]) -> None:
        try:
            work(*values)
        except BaseException as failure:
            self._failure = failure

    def finish(self, timeout_s: float = _GIVE_UP_S) -> None:
        """Wait for the thread, and raise what it raised."""
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "a thread of the race hangs"
        if self._failure is not None:
            raise self._failure


@contextmanager
def _idle_transaction(url: str) -> Iterator[None]:
    """A transaction in another database that has written, and then stays idle."""
    with psycopg.connect(with_database(url, "postgres")) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield
        connection.rollback()


def _watch(url: str, race: Race, enough: threading.Event, killed: list[int]) -> None:
    """Kill the server process of a writer now and then, and stop when enough is stored."""
    dice = random.Random(race.seed)
    deadline = time.monotonic() + _GIVE_UP_S
    with psycopg.connect(url, autocommit=True) as connection:
        while not enough.is_set():
            time.sleep(race.kill_every_s)
            rows = connection.execute("SELECT pid FROM tally.appenders()").fetchall()
            if rows:
                (victim,) = dice.choice(rows)
                connection.execute("SELECT pg_terminate_backend(%s)", (victim,))
                killed.append(victim)
            count = connection.execute("SELECT count(*) FROM tally.events").fetchone()
            if (count and count[0] >= race.events) or time.monotonic() > deadline:
                enough.set()


def _follow(
    url: str, make: Callable[[str, str | None], Reader], org: str | None, seen: list[int], done: threading.Event
) -> None:
    """Read until the writers have ended and everything is read."""
    reader = make(url, org)
    after, quiet = 0, 0
    try:
        while quiet < 5:
            finished = done.is_set()
            found, through = reader.page(after)
            seen += found
            quiet = quiet + 1 if finished and through == after else 0
            after = through
            time.sleep(0.002)
    finally:
        reader.close()


def _stored(url: str) -> list[tuple[int, str]]:
    with psycopg.connect(url) as connection:
        rows: list[tuple[int, str]] = connection.execute(_STORED).fetchall()
        return rows
