"""Contract: decisions on this engine follow from the whole stream, take effect once, and never from a stale state."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from tallystick import TypedReader, errors, state
from tallystick.decide import Decisions
from tallystick.store.capabilities import ANY_STREAM, COMMANDS, CONDITIONS, MAINTENANCE
from tallystick.testing import school
from tallystick.testing.bank import (
    Account,
    AccountEvent,
    Deposited,
    Opened,
    Overdrawn,
    SnapshottedAccount,
    Withdrawn,
    catalog,
)
from tallystick.testing.contract.harness import Contract, EngineHarness, needs

STREAM = "account/42"


def _accounts(harness: EngineHarness) -> Decisions[int, AccountEvent]:
    return Decisions(harness.open(catalog=catalog), Account)


class DeciderContract(Contract):
    """Accounts of a bank."""

    @needs(ANY_STREAM)
    def test_a_decision_sees_the_state_and_appends(self, harness: EngineHarness) -> None:
        """TAG-06: one event, several, or none; a decision that raises writes nothing."""
        store = harness.open(catalog=catalog)
        accounts = Decisions(store, Account)
        opened = accounts.run(STREAM, Account.open, owner="Ada", first=5)
        assert (opened.events, opened.first_seq, opened.seq) == ((Opened(owner="Ada"), Deposited(amount=5)), 1, 2)
        assert accounts.run(STREAM, Account.withdraw, 5).events == (Withdrawn(amount=5),)
        nothing = accounts.run(STREAM, Account.close)
        assert (nothing.events, nothing.first_seq, nothing.seq) == ((), 0, 3)
        with pytest.raises(Overdrawn):
            accounts.run(STREAM, Account.withdraw, amount=1)
        assert (accounts.load(STREAM).state, accounts.load(STREAM).seq) == (0, 3)
        assert [event.data for event in TypedReader[AccountEvent](store).stream(STREAM)] == [
            Opened(owner="Ada"),
            Deposited(amount=5),
            Withdrawn(amount=5),
        ]

    @needs(ANY_STREAM)
    def test_a_decision_is_made_again_after_a_conflict(self, harness: EngineHarness) -> None:
        """TAG-06: on the state that the other writer left; and it is given up after a bounded number of tries."""
        store = harness.open(catalog=catalog)
        accounts = Decisions(store, Account, conflict_tries=3)
        seen: list[int] = []

        class Disturbed(Account):
            def deposit(self, state: int, amount: int) -> Deposited:
                """Somebody else is faster, as often as they like."""
                seen.append(state)
                if len(seen) < until:
                    store.append(STREAM, Deposited(amount=100))
                return Deposited(amount=amount)

        disturbed = Decisions(store, Disturbed, conflict_tries=3)
        until = 3
        assert disturbed.run(STREAM, Disturbed.deposit, amount=1).seq == 3
        assert seen == [0, 100, 200]
        until = 100
        seen.clear()
        with pytest.raises(errors.Conflict):
            disturbed.run(STREAM, Disturbed.deposit, amount=1)
        assert seen == [201, 301, 401]
        assert accounts.load(STREAM).state == 501

    @needs(ANY_STREAM)
    def test_racing_decisions_never_break_a_rule(self, harness: EngineHarness) -> None:
        """TAG-06: eight threads withdraw from one account until it is empty, and it is never overdrawn."""
        accounts = Decisions(harness.open(catalog=catalog), Account, conflict_tries=1000)
        accounts.run(STREAM, Account.open, owner="Ada", first=40)
        done: list[int] = []

        def withdraw() -> None:
            for _ in range(10):
                try:
                    done.append(accounts.run(STREAM, Account.withdraw, amount=1).seq)
                except Overdrawn:
                    return

        threads = [threading.Thread(target=withdraw) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert sorted(done) == list(range(3, 43))
        assert accounts.load(STREAM).state == 0

    @needs(ANY_STREAM, CONDITIONS)
    def test_a_decision_may_depend_on_a_query(self, harness: EngineHarness) -> None:
        """TAG-06: sixteen threads subscribe to courses of three seats, and no course or student has too many."""
        store = harness.open(catalog=school.catalog)
        subscriptions = Decisions(store, school.Subscription, conflict_tries=1000)
        for course in ("art", "botany", "chess"):
            subscriptions.run(school.of_course(course), school.Subscription.define, course, seats=3)
        refused: list[str] = []

        def subscribe(number: int) -> None:
            for course in ("art", "botany", "chess"):
                student = f"s{number % 8}"
                boundary = school.of_both(course, student)
                try:
                    subscriptions.run(boundary, school.Subscription.subscribe, course=course, student=student)
                except school.Refused as problem:
                    refused.append(str(problem))

        threads = [threading.Thread(target=subscribe, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        taken = [event.data for event in TypedReader[school.Subscribed](store).events()]
        courses, students = Counter(each.course for each in taken), Counter(each.student for each in taken)
        assert courses == {"art": 3, "botany": 3, "chess": 3}
        assert max(students.values()) <= school.COURSES_MAX
        assert len({(each.course, each.student) for each in taken}) == 9
        assert len(refused) == 16 * 3 - 9
        loaded = subscriptions.load(school.of_course("art"))
        assert (loaded.folded, loaded.seq) == (4, 0)

    @needs(ANY_STREAM, CONDITIONS, COMMANDS)
    def test_a_decision_on_a_query_takes_effect_once(self, harness: EngineHarness) -> None:
        """TAG-06: with a key it is a command; it is made again after others changed what it depends on."""
        store = harness.open(catalog=school.catalog)
        seen: list[int] = []

        class Disturbed(school.Subscription):
            def subscribe(self, state: school.Seats, course: str, student: str) -> school.Subscribed:
                """Another student is faster, once."""
                seen.append(len(state.taken))
                if len(seen) == 1:
                    store.append("course/art", school.Subscribed(course="art", student="eve"))
                return super().subscribe(state, course, student)

        subscriptions = Decisions(store, Disturbed)
        boundary = school.of_both("art", "ann")
        subscriptions.run(boundary, Disturbed.define, "art", seats=2)
        request = subscriptions.request(idempotency_key="r-1", actor_id="ann")
        first = request.run(boundary, Disturbed.subscribe, course="art", student="ann")
        again = request.run(boundary, Disturbed.subscribe, course="art", student="ann")
        assert (first.repeated, again.repeated, seen) == (False, True, [0, 1])
        assert (
            (first.seq, first.events)
            == (again.seq, again.events)
            == (3, (school.Subscribed(course="art", student="ann"),))
        )
        with pytest.raises(school.Refused):
            subscriptions.run(school.of_both("art", "bob"), Disturbed.subscribe, "art", "bob")

    @needs(ANY_STREAM, COMMANDS)
    def test_a_key_makes_it_take_effect_once(self, harness: EngineHarness) -> None:
        """TAG-06: the same request gets the same answer, and another one under the key is refused."""
        accounts = _accounts(harness)
        accounts.run(STREAM, Account.open, owner="Ada", first=10)
        request = accounts.request(idempotency_key="r-1", actor_id="ada")
        first = request.run(STREAM, Account.withdraw, amount=5)
        again = request.run(STREAM, Account.withdraw, 5)
        assert (first.repeated, again.repeated) == (False, True)
        assert (first.events, first.first_seq, first.seq) == (again.events, again.first_seq, again.seq)
        others: list[tuple[str, Any, int]] = [
            (STREAM, Account.withdraw, 4),
            (STREAM, Account.deposit, 5),
            ("account/43", Account.withdraw, 5),
        ]
        for stream, decision, amount in others:
            with pytest.raises(errors.IdempotencyKeyReuse):
                request.run(stream, decision, amount)
        assert accounts.load(STREAM).state == 5
        nothing = accounts.request(idempotency_key="r-2")
        assert nothing.run("account/44", Account.close).events == nothing.run("account/44", Account.close).events == ()

    @needs(ANY_STREAM, COMMANDS)
    def test_racing_requests_with_one_key_have_one_effect(self, harness: EngineHarness) -> None:
        """TAG-06: six threads send the same request; all get the same answer."""
        accounts = _accounts(harness)
        accounts.run(STREAM, Account.open, owner="Ada", first=100)
        request = accounts.request(idempotency_key="r-1")
        found: list[tuple[int, bool]] = []

        def call() -> None:
            done = request.run(STREAM, Account.withdraw, amount=7)
            found.append((done.seq, done.repeated))

        threads = [threading.Thread(target=call) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(found) == [(3, False)] + [(3, True)] * 5
        assert accounts.load(STREAM).state == 93

    @needs(ANY_STREAM, MAINTENANCE)
    def test_a_state_is_loaded_from_a_snapshot(self, harness: EngineHarness) -> None:
        """TAG-06: a snapshot every few events, used by a new handle, with the same state as a full fold."""
        store = harness.open(catalog=catalog)
        accounts = Decisions(store, SnapshottedAccount)
        for number in range(1, 11):
            accounts.run(STREAM, SnapshottedAccount.deposit, amount=number)
        snapshots = list(state.entries(store, STREAM))
        assert [entry.fact.seq for entry in snapshots] == [9, 6, 3]
        loaded, whole = Decisions(store, SnapshottedAccount).load(STREAM), Decisions(store, Account).load(STREAM)
        assert (loaded.state, loaded.seq, loaded.folded) == (55, 10, 1)
        assert (whole.state, whole.seq, whole.folded) == (55, 10, 10)
