"""Decisions that depend on a query: what they see, what they append, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store, aio, errors, match, state
from tallystick.commands import CommandKey, Commands, Context
from tallystick.commands import Decision as Effect
from tallystick.decide import Boundary, Decisions
from tallystick.testing import school
from tallystick.testing.school import Defined, Refused, Seats, Subscribed, Subscription, of_both, of_course


@pytest.fixture
def store() -> Iterator[Store]:
    """A store with a course of two seats."""
    with tallystick.open("memory:", catalog=school.catalog) as store:
        store.append("course/art", Defined(course="art", seats=2))
        yield store


def test_models_say_their_tags(store: Store) -> None:
    """TAG-01, TAG-06: what the method `tags` returns, in appends, in decisions, and if a decision gives meta."""

    class Noted(Subscription):
        def subscribe(self, state: Seats, course: str, student: str) -> NewEvent:  # type: ignore[override]
            """With meta."""
            return NewEvent("student.subscribed", Subscribed(course=course, student=student), meta={"note": "x"})

    store.append("course/art", [Subscribed(course="art", student="ann")])
    Decisions(store, Subscription).run(of_both("art", "ben"), Subscription.subscribe, "art", "ben")
    Decisions(store, Noted).run(of_both("chess", "cem"), Noted.subscribe, "chess", "cem")
    tags = [event.metadata["tags"] for event in store.events()]
    assert tags == [["course:art"], *([f"course:{course}", f"student:{student}"] for course, student in TAKEN)]
    assert store.last("course/chess").metadata["note"] == "x"  # type: ignore[union-attr]


TAKEN = [("art", "ann"), ("art", "ben"), ("chess", "cem")]


def test_only_what_the_decider_takes_is_read(store: Store) -> None:
    """TAG-06: events of other types with the same tags neither reach evolve nor fail the append."""
    calls: list[int] = []

    class Disturbed(Subscription):
        def subscribe(self, state: Seats, course: str, student: str) -> Subscribed:
            """Something else happens to the course."""
            calls.append(1)
            store.append("room/1", NewEvent("room.painted", {}, tags=["course:art"]))
            return super().subscribe(state, course, student)

    store.append("room/1", NewEvent("room.painted", {}, tags=["course:art"]))
    assert Decisions(store, Disturbed).run(of_both("art", "ann"), Disturbed.subscribe, "art", "ann").seq == 2
    assert calls == [1]


def test_an_org_sees_its_own(store: Store) -> None:
    """TAG-04, TAG-06: a request of an org neither sees the events of others nor is disturbed by them."""
    subscriptions = Decisions(store, Subscription)
    acme, other = subscriptions.request(org="acme"), subscriptions.request(org="other")
    for who in (acme, other):
        who.run(Boundary(match(tags=["course:go"]), f"course/{id(who)}"), Subscription.define, "go", seats=1)
    acme.run(Boundary(match(tags=["course:go"]), f"course/{id(acme)}"), Subscription.subscribe, "go", "ann")
    assert len(acme.load(of_course("go")).state.taken) == 1
    assert len(other.load(of_course("go")).state.taken) == 0


def test_conflicts_with_a_query_are_bounded(store: Store) -> None:
    """TAG-06: a decision whose query always changes is given up with `ConditionFailed`."""
    calls: list[int] = []

    class Hopeless(Subscription):
        def define(self, state: Seats, course: str, seats: int) -> Defined:
            """Somebody is always faster."""
            calls.append(len(state.of))
            store.append("course/art", Defined(course="art", seats=seats))
            return Defined(course=course, seats=seats)

    with pytest.raises(errors.ConditionFailed):
        Decisions(store, Hopeless, conflict_tries=3).run(of_course("art"), Hopeless.define, "art", seats=1)
    assert calls == [1, 2, 3]


def test_a_command_may_depend_on_a_query(store: Store) -> None:
    """CP-06, TAG-06: a handler that consulted decides again after `ConditionFailed`."""
    calls: list[int] = []

    def define(context: Context) -> Effect:
        seen = context.store.consult(match(["course.defined"], ["course:art"]))
        calls.append(len(seen.events))
        if len(calls) == 1:
            store.append("course/art", Defined(course="art", seats=1))
        event = Defined(course="art", seats=3)
        return Effect([("course/art", [event], tallystick.ANY)], None, unless=seen.marker)

    key = CommandKey("", "ada", "define", "k")
    Commands(store).run(key=key, request={}, handler=define)
    assert calls == [1, 2]
    assert store.last("course/art").metadata["tags"] == ["course:art"]  # type: ignore[union-attr]


def test_what_evolve_fails_on_is_named(store: Store) -> None:
    """TAG-06: an exception of evolve, and an erased event, name the stream and the seq."""

    class Fragile(Subscription):
        def evolve(self, state: Seats, event: Defined | Subscribed) -> Seats:
            """Fail."""
            raise KeyError(event)

    with pytest.raises(errors.ReducerFailed, match="seq 1 of 'course/art': KeyError"):
        Decisions(store, Fragile).load(of_course("art"))
    state.erase(store, "course/art", 1, reason="request")
    with pytest.raises(errors.PayloadErased, match="seq 1 of 'course/art'"):
        Decisions(store, Subscription).run(of_both("art", "ann"), Subscription.subscribe, "art", "ann")


@pytest.mark.parametrize(
    "boundary", [(None, "course/art"), ("course:art", "course/art"), (match(), "art"), (match(), 7)]
)
def test_a_wrong_boundary_is_refused(boundary: Any) -> None:
    """TAG-06: a boundary has a query and a stream."""
    with pytest.raises((errors.InvalidValue, errors.InvalidName)):
        Boundary(*boundary)


def test_an_engine_without_conditions_says_so(tmp_path: Path) -> None:
    """TAG-06: ndjson has no order of all streams."""
    url = f"ndjson:{tmp_path}/log"
    with tallystick.open(url, catalog=school.catalog) as store, pytest.raises(errors.UnsupportedCapability):
        Decisions(store, Subscription).run(of_course("art"), Subscription.define, "art", seats=1)


def test_tasks_decide_on_a_query(tmp_path: Path) -> None:
    """TAG-06: thirty tasks subscribe to a course of ten seats; ten get one."""

    async def run() -> None:
        async with await aio.open(f"files:{tmp_path}/log", catalog=school.catalog) as store:
            subscriptions = aio.Decisions(store, Subscription, conflict_tries=200)
            await subscriptions.run(of_course("art"), Subscription.define, "art", seats=10)
            students = [f"s{number}" for number in range(30)]
            tasks = [subscriptions.run(of_both("art", who), Subscription.subscribe, "art", who) for who in students]
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 20
            assert len((await subscriptions.load(of_course("art"))).state.taken) == 10

    asyncio.run(run())
