"""The Postgres engine against `eventsourcing`, bare INSERT and bare COPY, all on one server with fsync on."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import tallystick
from bench import payloads
from bench.harness import Bar, Row, Spec, alternate, measures, rate
from bench.peers import postgres as peers
from bench.rows.batches import BATCH, append_batches, numbered
from bench.workshop import Workshop
from tallystick import NewEvent, Store
from tallystick.testing.postgres import database

CLIENTS = 16
_PAGE = 1000
_ON = "validation, secret guard, checksum and chain on, checked again by the database; all indexes, row security"

BATCHES = Spec(
    name="postgres: batches of 1,000, everything on",
    unit="events/s",
    against="eventsourcing",
    bar=Bar("ratio", ">=", 1.6),
    note=f"{_ON}; {peers.UNEQUAL}",
    covers=("CP-14",),
)
COPY = Spec(
    name="postgres: batches of 1,000, against a bare COPY",
    unit="events/s",
    against="COPY",
    note="the bare table holds a key, stream and payload: no other index, no checks, no hashes",
)
SINGLES = Spec(
    name="postgres: single appends",
    unit="events/s",
    against="eventsourcing",
    bar=Bar("ratio", ">=", 1.5),
    note=peers.UNEQUAL,
    covers=("CP-14",),
)
INSERT = Spec(
    name="postgres: single appends, against a raw INSERT",
    unit="events/s",
    against="INSERT, autocommit, same columns",
    bar=Bar("ratio", ">=", 0.4),
    note="into a table with the same columns, constraints and indexes; no heads, no chain, no checks, no triggers",
)
BARE = Spec(
    name="postgres: single appends, against an INSERT of three columns",
    unit="events/s",
    against="INSERT, autocommit, bare",
    note="the bare table holds a key, stream and payload: no other index, no checks, no hashes",
)
MANY = Spec(
    name=f"postgres: {CLIENTS} client processes, streams of their own",
    unit="events/s",
    against="one client process",
    bar=Bar("ratio", ">=", 1.5),
    note="client processes and the server share the cores",
)
READING = Spec(
    name="postgres: reading the log in order",
    unit="events/s",
    against="eventsourcing",
    bar=Bar("ratio", ">=", 1.3),
    note=f"pages of {_PAGE:,}, up to the proven head",
)

_CLIENT = """
import sys, tallystick
from bench import payloads
from tallystick import NewEvent
url, number, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
bodies = payloads.orders(100)
with tallystick.open(url) as store:
    for each in range(20):  # a server process plans a statement anew until it has seen it a few times
        store.append(f"order/{number}", NewEvent(payloads.TYPE, bodies[each]))
    print("ready", flush=True)
    sys.stdin.readline()
    for each in range(count):
        store.append(f"order/{number}", NewEvent(payloads.TYPE, bodies[each % 100]))
    print("done", flush=True)
    sys.stdin.readline()
"""


@measures(BATCHES, COPY, READING)
def batches(workshop: Workshop) -> Iterator[Row]:
    bodies = payloads.orders(BATCH)
    count = workshop.scale.batches
    with ExitStack() as stack:
        ours, theirs, bare = (stack.enter_context(database()) for _ in range(3))
        store = stack.enter_context(tallystick.open(ours))
        library = stack.enter_context(peers.recorder(theirs))
        table = stack.enter_context(peers.table(bare))
        best = alternate(
            {
                "ours": append_batches(store, bodies, count),
                "library": numbered(lambda stream: library.append(bodies), count),
                "copy": numbered(lambda stream: table.copy(stream, bodies), count),
            },
            rounds=workshop.scale.rounds,
        )
        read = alternate(
            {"ours": lambda: _read(store), "library": lambda: _timed(lambda: library.read(page=_PAGE))}, rounds=3
        )
    figure = {name: samples.highest for name, samples in best.items()}
    yield BATCHES.row(figure["ours"], figure["library"], note=best["ours"].spread)
    yield COPY.row(figure["ours"], figure["copy"])
    yield READING.row(read["ours"].highest, read["library"].highest, note=read["ours"].spread)


def _read(store: Store) -> float:
    return _timed(lambda: sum(1 for _ in store.events()))


def _timed(work: Callable[[], int]) -> float:
    counted: list[int] = []
    return rate(1, lambda: counted.append(work())) * counted[0]


@measures(SINGLES, INSERT, BARE)
def singles(workshop: Workshop) -> Iterator[Row]:
    bodies = itertools.cycle(payloads.orders(100))
    numbers = itertools.count()
    count = workshop.scale.singles // 4
    with ExitStack() as stack:
        ours, theirs, bare, whole = (stack.enter_context(database()) for _ in range(4))
        store = stack.enter_context(tallystick.open(ours))
        library = stack.enter_context(peers.recorder(theirs))
        table = stack.enter_context(peers.table(bare))
        alike = stack.enter_context(peers.whole_table(whole, like=ours))

        def append() -> None:
            store.append(f"order/{next(numbers) % 50}", NewEvent(payloads.TYPE, next(bodies)))

        best = alternate(
            {
                "ours": lambda: rate(1, append, times=count),
                "library": lambda: rate(1, lambda: library.append([next(bodies)]), times=count),
                "insert": lambda: rate(1, lambda: alike.insert("order/1", next(bodies)), times=count),
                "bare": lambda: rate(1, lambda: table.insert("order/1", next(bodies)), times=count),
            },
            rounds=workshop.scale.rounds,
        )
    yield SINGLES.row(best["ours"].highest, best["library"].highest, note=best["ours"].spread)
    yield INSERT.row(best["ours"].highest, best["insert"].highest)
    yield BARE.row(best["ours"].highest, best["bare"].highest)


@measures(MANY)
def many(workshop: Workshop) -> Iterator[Row]:
    count = (
        workshop.scale.singles // 2
    )  # a client's first hundred appends are its slowest: Python and the server warm up
    with database() as url:
        tallystick.open(url).close()
        best = alternate(
            {"many": lambda: _clients(url, CLIENTS, count), "one": lambda: _clients(url, 1, 4 * count)}, rounds=5
        )
    yield MANY.row(best["many"].highest, best["one"].highest, note=best["many"].spread)


def _clients(url: str, clients: int, count: int) -> float:
    """Appends a second of so many processes together, from when all are ready until all are done."""
    command = [sys.executable, "-c", _CLIENT, url]
    running = [
        subprocess.Popen([*command, str(number), str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(clients)
    ]
    try:
        for client in running:
            _line(client)
        return rate(clients * count, lambda: _go(running))
    finally:
        for client in running:
            client.communicate("\n")


def _go(running: list[subprocess.Popen[str]]) -> None:
    for client in running:
        assert client.stdin is not None
        client.stdin.write("\n")
        client.stdin.flush()
    for client in running:
        _line(client)


def _line(client: subprocess.Popen[str]) -> None:
    assert client.stdout is not None
    if not client.stdout.readline():
        raise RuntimeError("a client process ended")
