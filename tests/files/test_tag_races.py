"""Conditions under races: threads of one process, tasks, groups of requests, and readers in other processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store, aio, errors, match
from tallystick.store.conditions import Consultation
from tallystick.store.prepare import Part, Request
from tallystick.store.query import Condition
from tallystick.store.verify import verify

SMALL = 20_000
WRITERS, SEATS, COURSES = 6, 5, 8
SECONDS = 60


def joined(course: int, student: str) -> NewEvent:
    """A student takes a seat."""
    return NewEvent("student.joined", {}, tags=[f"course:{course}", f"student:{student}"])


def seats_of(store: Store, course: int) -> Consultation:
    """Who has a seat."""
    return store.consult(match(types=["student.joined"], tags=[f"course:{course}"]))


def subscribe(store: Store, course: int, student: str) -> bool:
    """Take a seat if one is free; try again if somebody else was faster."""
    while True:
        seen = seats_of(store, course)
        if len(seen.events) >= SEATS:
            return False
        try:
            store.append(f"joined/{student}", joined(course, student), unless=seen.marker)
        except errors.ConditionFailed:
            continue
        return True


def test_threads_never_give_a_seat_twice(opened: Any) -> None:
    """TAG-02: writers in threads decide on the same courses while segments are sealed and compressed."""
    store = opened(segment_bytes_max=SMALL, compress_bytes_min=0)
    taken: list[bool] = []
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for course in range(COURSES):
                for attempt in range(3):
                    taken.append(subscribe(store, course, f"{number}-{attempt}"))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert problems == []
    assert sum(taken) == SEATS * COURSES
    assert [len(seats_of(store, course).events) for course in range(COURSES)] == [SEATS] * COURSES
    assert verify(store.log).ok


@pytest.mark.parametrize("asked", [True, False])
def test_a_condition_that_is_not_asked_gives_seats_twice(
    opened: Any, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """TAG-02: it is the tags that decide: with an engine that finds nothing, every writer gets the last seat."""
    store = opened()
    if not asked:
        monkeypatch.setattr(type(store.log), "matches", lambda self, condition, limit: [])
    seen = [seats_of(store, 1) for _ in range(WRITERS)]
    given = 0
    for number, each in enumerate(seen):
        try:
            store.append(f"joined/{number}", joined(1, str(number)), unless=each.marker)
        except errors.ConditionFailed:
            continue
        given += 1
    assert given == (1 if asked else WRITERS)


def test_of_many_requests_in_one_commit_one_takes_a_name(opened: Any) -> None:
    """TAG-02: group commit: requests see those before them, whether these are stored or in the same commit."""
    store = opened()
    for round_ in range(20):
        name = match(tags=[f"name:{round_}"])
        asked = [
            Request([Part(f"order/{number}", [NewEvent("x.done", {}, tags=[f"name:{round_}"])])], unless=name)
            for number in range(30)
        ]
        done = store.submit(asked)
        assert [number for number, each in enumerate(done) if not isinstance(each, errors.ConditionFailed)] == [0]
    assert store.head() == 20
    assert verify(store.log).ok


def test_tasks_never_give_a_seat_twice(directory: Path) -> None:
    """TAG-02: `aio` puts the requests of many tasks into one commit, each judged on its own."""

    async def work(store: aio.AsyncStore, number: int) -> int:
        count = 0
        for course in range(COURSES):
            while True:
                seen = await asyncio.to_thread(seats_of, store.store, course)
                if len(seen.events) >= SEATS:
                    break
                event = joined(course, f"{number}-{count}")
                try:
                    await store.append(f"joined/{number}", event, unless=seen.marker)
                except errors.ConditionFailed:
                    continue
                count += 1
                break
        return count

    async def main() -> list[int]:
        async with await aio.open(f"files:{directory}", segment_bytes_max=SMALL) as store:
            return await asyncio.gather(*(work(store, number) for number in range(20)))

    counts = asyncio.run(main())
    assert sum(counts) == SEATS * COURSES
    with tallystick.open(f"files:{directory}") as store:
        assert [len(seats_of(store, course).events) for course in range(COURSES)] == [SEATS] * COURSES
        assert verify(store.log).ok


def read_meanwhile(url: str, began: Any, ended: Any, results: Any) -> None:
    """Ask a log again and again while another process writes: each name once, and nothing is taken back."""
    seen, rounds, wrong = 0, 0, []
    with tallystick.open(url, readonly=True) as store:
        is_last = False
        while not is_last:
            is_last = ended.is_set()
            head = store.head()
            names = store.log.matches(Condition(match(types=["x.done"], tags=["all:1"])), limit=1 << 40)  # type: ignore[attr-defined]
            found = [event.position for event in store.consult(match(tags=["all:1"])).events]
            if names[:head] != list(range(1, len(names[:head]) + 1)) or len(found) < head or len(names) < seen:
                wrong.append((head, names[-3:], found[-3:]))
            seen, rounds = len(names), rounds + 1
            if rounds == 1:
                began.wait(SECONDS)
        rebuilt = store.report().facts["tags_rebuilt"]
    results.put((seen, rounds, wrong, rebuilt))


def test_readers_in_other_processes_see_what_was_committed(directory: Path) -> None:
    """TAG-02: readers find every event up to the head while a writer appends, seals, compresses and opens."""
    context = multiprocessing.get_context("spawn")
    began, ended, results = context.Barrier(3), context.Event(), context.Queue()  # two readers, and the writer
    url = f"files:{directory}"
    with tallystick.open(url) as store:
        store.append("order/1", NewEvent("x.done", {}, tags=["all:1"]))
    readers = [context.Process(target=read_meanwhile, args=(url, began, ended, results)) for _ in range(2)]
    for reader in readers:
        reader.start()
    began.wait(SECONDS)
    for _ in range(3):
        with tallystick.open(url, segment_bytes_max=SMALL, compress_bytes_min=0) as store:
            for number in range(150):
                event = NewEvent("x.done", {"text": "x" * 100}, tags=["all:1", f"name:{number}"])
                store.append(f"order/{number % 3}", event)
    ended.set()
    found = [results.get(timeout=SECONDS) for _ in readers]
    for reader in readers:
        reader.join(SECONDS)
    for seen, rounds, wrong, _ in found:
        assert (seen, wrong) == (451, [])
        assert rounds > 1
