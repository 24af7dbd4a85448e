"""The rows of the service. Client and server share the cores; the server is `tally serve` with its defaults."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

import tallystick
from bench import payloads
from bench.harness import Bar, Row, Samples, Spec, alternate, measures, percentile, rate
from bench.http.client import Connection, exchange, get, post
from bench.http.followers import GIVE_UP_SECONDS, Followers
from bench.http.serving import Address, served
from bench.http.writers import Writers
from bench.peers import umadb
from bench.workshop import QUICK, Workshop, fill, remove

CONNECTIONS = 64
BATCH = 100
BATCH_CONNECTIONS = 4
PAGE = 10_000
FOLLOWERS = 100
FOLLOWED_PER_SECOND = 200
WRITERS = 8
STEP_SECONDS = 0.001
UNIT = "events/s"
SHARED = "client and server share the cores"

SINGLES = Spec(
    name="http: 64 connections, one durable event each at a time",
    unit=UNIT,
    against="umadb over gRPC, 64 threads",
    bar=Bar("value", ">=", 4000),
    note=f"{SHARED}; ours is one process with the client in one thread, theirs 64 client threads; {umadb.UNEQUAL}",
    covers=("LH-17", "CP-14"),
)
P99 = Spec(name="http: p99 of the same", unit="ms", bar=Bar("value", "<=", 60), note="the best round's")
BATCHES = Spec(
    name="http: batches of 100, durable", unit=UNIT, bar=Bar("value", ">=", 40_000), note=f"4 connections; {SHARED}"
)
READING = Spec(
    name="http: reading by cursor, pages of 10,000",
    unit=UNIT,
    bar=Bar("value", ">=", 100_000),
    note=f"one connection, every field of every event; {SHARED}",
)
FOLLOWING = Spec(
    name="http: events that 100 followers did not get once and in order, at 200 events/s",
    unit="events",
    bar=Bar("value", "<=", 0),
)
DELAY = Spec(
    name="http: p99 of append to last of 100 followers",
    unit="ms",
    note=f"from the request's first byte until the slowest follower has the event; {SHARED}",
)


def _body(events: Sequence[dict[str, Any]]) -> bytes:
    return msgspec.json.encode({"events": [{"type": payloads.TYPE, "payload": body} for body in events]})


@measures(SINGLES, P99)
def singles(workshop: Workshop) -> Iterator[Row]:
    """64 keep-alive connections, each with one durable append under way."""
    each = workshop.scale.tasks_events
    bodies = payloads.orders(each)
    few = bodies[: max(each // 4, 1)]
    requests = [
        [post(f"/v1/streams/order/{number}/events", _body([body])) for body in bodies] for number in range(CONNECTIONS)
    ]
    tails = Samples()
    with served(f"files:{workshop.place('files')}") as address, umadb.server(workshop.place("umadb")) as uma:
        connections = [Connection(address) for _ in range(CONNECTIONS)]

        def ours() -> float:
            began = time.perf_counter()
            taken = exchange(connections, requests)
            passed = time.perf_counter() - began
            tails.figures.append(percentile(sorted(taken), 0.99) * 1000)
            return len(taken) / passed

        best = alternate(
            {"ours": ours, "umadb": lambda: rate(CONNECTIONS * len(few), lambda: uma.append_singly(few, threads=64))},
            rounds=max(workshop.scale.rounds // 2, 3),
        )
        for connection in connections:
            connection.close()
    yield SINGLES.row(best["ours"].highest, best["umadb"].highest, note=best["ours"].spread)
    yield P99.row(tails.lowest, note=f"rounds from {tails.lowest:.0f} to {tails.highest:.0f} ms")


@measures(BATCHES)
def batches(workshop: Workshop) -> Iterator[Row]:
    """A few connections, each with one batch under way."""
    count = workshop.scale.batches * 4
    events = payloads.orders(BATCH)
    requests = [
        [post(f"/v1/streams/batch/{number}/events", _body(events))] * count for number in range(BATCH_CONNECTIONS)
    ]
    with served(f"files:{workshop.place('files')}") as address:
        connections = [Connection(address) for _ in range(BATCH_CONNECTIONS)]
        total = BATCH * BATCH_CONNECTIONS * count
        best = alternate(
            {"ours": lambda: rate(total, lambda: exchange(connections, requests))},
            rounds=max(workshop.scale.rounds // 2, 3),
        )["ours"]
        for connection in connections:
            connection.close()
    yield BATCHES.row(best.highest, note=best.spread)


@measures(READING)
def reading(workshop: Workshop) -> Iterator[Row]:
    """The whole log, page after page."""
    path, count = workshop.place("files"), 50_000 if workshop.scale == QUICK else 200_000
    with tallystick.open(f"files:{path}") as store:
        fill(store, count)
    with served(f"files:{path}") as address:
        connection = Connection(address)
        best = alternate(
            {"ours": lambda: rate(count, lambda: _read_all(connection, count))},
            rounds=max(workshop.scale.rounds // 3, 3),
        )["ours"]
        connection.close()
    remove(path)
    yield READING.row(best.highest, note=f"{count:,} events; {best.spread}")


def _read_all(connection: Connection, count: int) -> None:
    after = seen = 0
    while after < count:
        body = connection.ask(get(f"/v1/events?after={after}&limit={PAGE}"))
        after = int(body[body.rindex(b'"through":') + 10 :].partition(b",")[0].rstrip(b"}"))
        seen += body.count(b'{"position":')
    if seen != count:
        raise RuntimeError(f"{seen} events were read, {count} are there")


@measures(FOLLOWING, DELAY)
def following(workshop: Workshop) -> Iterator[Row]:
    """A writer at a steady rate, and a hundred who follow it."""
    seconds = 5 if workshop.scale == QUICK else 20
    with served(f"files:{workshop.place('files')}") as address:
        missing, delays, sent_a_second = _follow(address, FOLLOWED_PER_SECOND * seconds)
    note = f"{FOLLOWED_PER_SECOND * seconds:,} events to each follower, sent at {sent_a_second:.0f} a second"
    yield FOLLOWING.row(missing, note=note)
    yield DELAY.row(percentile(sorted(delays), 0.99) * 1000, note=note)


def _follow(address: Address, count: int) -> tuple[int, list[float], float]:
    """What was missing, how long each event took to the last follower, and how many were sent a second."""
    followers, writers = Followers(address, FOLLOWERS), Writers(address, WRITERS)
    waiting = [post("/v1/streams/order/1/events", _body([body])) for body in payloads.orders(count)]
    arrived: list[float] = []
    began, sent, passed, last = time.perf_counter(), 0, 0.0, 0.0
    try:
        while len(arrived) < count and passed < count / FOLLOWED_PER_SECOND + GIVE_UP_SECONDS:
            passed = time.perf_counter() - began
            if sent < count and passed >= sent / FOLLOWED_PER_SECOND and writers.send(waiting[sent]):
                sent += 1
                last = passed
            writers.take()
            followers.take(seconds=STEP_SECONDS)
            arrived += [time.perf_counter()] * (followers.furthest_behind - len(arrived))
        times = sorted(writers.sent.items())
        delays = [at - began_at for at, (_, began_at) in zip(arrived, times, strict=False)]
        return followers.missing(count), delays or [GIVE_UP_SECONDS], count / max(last, 1e-9)
    finally:
        followers.close()
        writers.close()


CASES = (singles, batches, reading, following)
