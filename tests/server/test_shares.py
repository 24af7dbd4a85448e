"""Shares: what one caller may have of a gate, of the threads and of the connections while others want some too."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context
from typing import Any

import pytest

from tallystick import errors
from tallystick.server.gate import CALLER, Admission, Gate
from tallystick.server.http.crowd import Crowd
from tallystick.server.threads import Threads


def entered(gate: Gate, caller: str | None, *sizes: int) -> list[Admission]:
    """Entries of a caller, as many as are let in."""

    def enter() -> list[Admission]:
        CALLER.set(caller)
        found: list[Admission] = []
        for size in sizes:
            try:
                found.append(gate.enter(size))
            except errors.Overloaded:
                break
        return found

    return copy_context().run(enter)


@pytest.mark.parametrize(("caller", "most"), [("a", 8), (None, 16)])
def test_one_caller_gets_half_of_a_gate_and_a_trusted_one_all(caller: str | None, most: int) -> None:
    """Places: half are first come, first served; the operator of a store without tokens has no share."""
    assert len(entered(Gate("x", count_max=16), caller, *[0] * 20)) == most


def test_the_other_half_is_for_callers_that_use_little() -> None:
    """Places: eight callers fit next to one that wants everything, each with its share."""
    gate = Gate("x", count_max=16)
    mine = entered(gate, "a", *[0] * 20)
    assert [len(entered(gate, name, *[0] * 9)) for name in "bcde"] == [2, 2, 2, 2]
    assert entered(gate, "f", 0) == []
    for entry in mine[:2]:
        entry.leave()
    assert len(entered(gate, "f", *[0] * 9)) == 2


def test_bytes_are_shared_like_places() -> None:
    """Memory: one caller holds half of it, others their share, and a caller that leaves frees its room."""
    gate = Gate("x", count_max=100, bytes_max=1600)
    mine = entered(gate, "a", *[200] * 9)
    assert gate.bytes == 800
    assert len(entered(gate, "b", 200, 200)) == 1
    for entry in mine:
        entry.leave()
    assert (gate.count, gate.bytes) == (1, 200)


def test_a_caller_that_reads_much_waits_for_others() -> None:
    """Threads: a caller with too many calls waits, and others are served meanwhile; in the end all calls are done."""

    async def work() -> tuple[int, list[int]]:
        threads, go, running = Threads(8), threading.Event(), []

        def block(number: int) -> int:
            running.append(number)
            assert go.wait(60)
            return number

        CALLER.set("a")
        mine = [asyncio.ensure_future(threads.run(lambda number=number: block(number))) for number in range(20)]
        gone = mine.pop()
        await asyncio.sleep(0)
        CALLER.set("b")
        assert await threads.run(lambda: "served") == "served"
        most = len(running)
        gone.cancel()
        go.set()
        done = await asyncio.gather(*mine)
        threads.close()
        return most, done

    most, done = asyncio.run(work())
    assert most <= 4
    assert done == list(range(19))


class Idle:
    """A connection that does nothing, or one that is busy."""

    def __init__(self, *, is_idle: bool = True) -> None:
        self.is_idle = is_idle


def crowd(count_max: int, **members: list[Any]) -> Crowd:
    """A crowd of connections by caller."""
    found = Crowd(count_max=count_max)
    for caller, group in members.items():
        for member in group:
            found.join(member, caller)
    return found


def test_the_oldest_one_without_a_token_is_closed_first() -> None:
    """Connections: while more than half have no token, the oldest one of the largest address is closed."""
    strangers, members = [Idle() for _ in range(6)], [Idle() for _ in range(5)]
    found = crowd(10, **{"address 1": strangers[:2], "address 2": strangers[2:]}, a=members)
    assert found.is_full
    assert found.victim() is strangers[2]


def test_the_caller_that_has_most_makes_room() -> None:
    """Connections: the oldest idle one is closed; a busy one only if its caller has more than its share."""
    busy, idle = [Idle(is_idle=False) for _ in range(3)], Idle()
    found = crowd(5, a=[*busy, idle], b=[Idle(), Idle()])
    assert found.victim() is idle
    found.leave(idle)
    assert found.victim() is busy[0]
    assert crowd(3, a=[Idle(is_idle=False)], b=[Idle(is_idle=False)]).victim() is not None
    assert crowd(8, a=busy[:1], b=busy[1:2], c=busy[2:]).victim() is None


def test_a_connection_that_shows_its_token_counts_for_its_caller() -> None:
    """Connections: after authorisation it belongs to its caller; one that has closed does not count."""
    member, other = Idle(), Idle()
    found = crowd(1, **{"address 1": [member, other]})
    found.join(member, "a")
    found.leave(other)
    found.leave(other)
    assert not found.is_full
