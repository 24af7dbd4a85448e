"""Many tasks, each waiting for its own durable append: group commit shares the fsync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from bench import payloads
from bench.harness import Bar, Row, Spec, alternate, measures, rate
from bench.peers import umadb
from bench.workshop import Workshop, remove
from tallystick import NewEvent

TASKS = 64
THEIR_SHARE = 4  # the peer appends fewer events a round, so that both turns take about as long

AGAINST = Spec(
    name="files, async: 64 tasks, one durable event each at a time",
    unit="events/s",
    against="umadb, 64 threads",
    bar=Bar("ratio", ">=", 4.0),
    note="ours is one process with an event loop (uvloop), theirs 64 client threads and a server: " + umadb.UNEQUAL,
    covers=("LH-07", "LH-15"),
)
VALUE = Spec(
    name="files, async: 64 tasks, 40,000 events/s",
    unit="events/s",
    bar=Bar("value", ">=", 40_000),
    note="everything on, on uvloop, every await ends with the event on disk",
    covers=("LH-18",),
)
PLAIN = Spec(
    name="files, async: 64 tasks, on the event loop that Python brings",
    unit="events/s",
    against="the same on uvloop",
    note="shown, without a bar: what `pip install uvloop` is worth here",
)


@measures(AGAINST, VALUE, PLAIN)
def concurrent(workshop: Workshop) -> Iterator[Row]:
    each = workshop.scale.tasks_events
    bodies = payloads.orders(each)
    few = bodies[: max(each // THEIR_SHARE, 1)]
    with (
        umadb.server(workshop.place("umadb")) as uma,
        _ours(workshop, uvloop.new_event_loop) as append,
        _ours(workshop, asyncio.new_event_loop) as append_plainly,
    ):
        best = alternate(
            {
                "ours": lambda: rate(TASKS * len(bodies), lambda: append(bodies)),
                "umadb": lambda: rate(TASKS * len(few), lambda: uma.append_singly(few, threads=TASKS)),
                "plain": lambda: rate(TASKS * len(bodies), lambda: append_plainly(bodies)),
            },
            rounds=workshop.scale.rounds,
        )
    note = best["ours"].spread
    yield AGAINST.row(best["ours"].highest, best["umadb"].highest, note=note)
    yield VALUE.row(best["ours"].highest, note=note)
    yield PLAIN.row(best["plain"].highest, best["ours"].highest, note=best["plain"].spread)


@contextmanager
def _ours(
    workshop: Workshop, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> Iterator[Callable[[list[dict[str, object]]], None]]:
    """A store of its own on an event loop of its own, and the call that appends to it from 64 tasks."""
    path = workshop.place("files")
    with asyncio.Runner(loop_factory=make_loop) as runner:
        store = runner.run(_open(f"files:{path}"))
        try:
            yield lambda bodies: runner.run(_append_all(store, bodies))
        finally:
            runner.run(store.close())
            remove(path)


async def _open(url: str) -> Any:
    import tallystick.aio

    return await tallystick.aio.open(url)


async def _append_all(store: Any, bodies: list[dict[str, object]]) -> None:
    async def task(number: int) -> None:
        stream = f"order/{number}"
        for body in bodies:
            await store.append(stream, NewEvent(payloads.TYPE, body))

    await asyncio.gather(*(task(number) for number in range(TASKS)))
