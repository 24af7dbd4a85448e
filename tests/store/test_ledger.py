"""The judgement of a commit, on its own: what is refused leaves no trace, and the order of judgement is fixed."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import ANY, errors
from tallystick.store.commit import Transaction
from tallystick.store.leases import Owner
from tallystick.store.ledger import Holder
from tallystick.testing.builders import event, events, named


def _trace(ledger: Any) -> tuple[Any, ...]:
    return (list(ledger.rows), dict(ledger.heads), dict(ledger.sources), list(ledger.leases))


def test_a_refused_transaction_leaves_no_trace(view: Any, prepared: Any) -> None:
    """CP-05: whatever its first parts did, a transaction that fails in its last part changes nothing."""
    ledger = view.ledger(Holder())
    ledger.judge(prepared(("order/a", [event(meta={"source": "s", "source_seq": 1, "org": "acme"})], ANY)))
    before = _trace(ledger)
    many = [("order/a", [event(meta={"source": "s", "source_seq": 2})], ANY), ("run/x", [named(1)], ANY)]
    for last in (
        ("order/b", [event()], 5),
        ("order/a", [event(meta={"org": "bolt"})], ANY),
        ("order/c", [named(1)], ANY),
    ):
        with pytest.raises(errors.Refused):
            ledger.judge(prepared(*many, last))
        assert _trace(ledger) == before


def test_what_passed_before_in_a_commit_counts(view: Any, prepared: Any) -> None:
    """LH-07: transactions of one commit see each other, in order, before anything is stored."""
    ledger = view.ledger(Holder())
    assert ledger.judge(prepared(("order/a", events(2), 0)))[0].last_position == 2
    assert ledger.judge(prepared(("order/a", [named(1)], 2)))[0].last_position == 3
    assert ledger.judge(prepared(("order/a", [named(1)], 0)))[0].stored == 1
    assert [row[:3] for row in ledger.rows] == [(1, "order/a", 1), (2, "order/a", 2), (3, "order/a", 3)]


def test_positions_go_on_inside_a_transaction(view: Any, prepared: Any) -> None:
    """CP-02: positions are given in the order of parts, without gap or repeat."""
    ledger = view.ledger(Holder())
    ledger.judge(prepared(("order/a", events(2), ANY), ("order/b", events(3), ANY), ("order/a", events(1), ANY)))
    ledger.judge(prepared(("order/c", events(1), ANY)))
    assert [(row[0], row[1], row[2]) for row in ledger.rows] == [
        (1, "order/a", 1),
        (2, "order/a", 2),
        (3, "order/b", 1),
        (4, "order/b", 2),
        (5, "order/b", 3),
        (6, "order/a", 3),
        (7, "order/c", 1),
    ]


def test_the_expectation_is_judged_before_org_lease_and_source(view: Any, prepared: Any) -> None:
    """The order of judgement is fixed, so that every engine gives the same error for the same request."""
    first = view.ledger(Holder())
    first.judge(prepared(("run/a", [event(meta={"org": "acme", "source": "s", "source_seq": 5})], 0)))
    view.commit(first)
    other = view.ledger(Holder())
    wrong = {"org": "bolt", "source": "s", "source_seq": 5}
    with pytest.raises(errors.Conflict):
        other.judge(prepared(("run/a", [event(meta=wrong)], 9)))
    with pytest.raises(errors.OrgMismatch):
        other.judge(prepared(("run/a", [event(meta=wrong)], 1)))
    with pytest.raises(errors.LeaseHeld):
        other.judge(prepared(("run/a", [event(meta=wrong | {"org": "acme"})], 1)))
    with pytest.raises(errors.SourceRepeated):
        view.ledger(Holder()).judge(prepared(("order/a", [event(meta=wrong | {"org": "acme"})], 0)))


def test_a_lease_is_held_only_when_its_commit_is_durable(view: Any, prepared: Any) -> None:
    """EVT-09: a commit that failed on its way to the disk leaves its writer without the lease."""
    holder = Holder()
    view.ledger(holder).judge(prepared(("run/a", [event()], 0)))
    assert holder.held == {}
    ledger = view.ledger(holder)
    ledger.judge(prepared(("run/a", [event()], 0)))
    view.commit(ledger)
    assert holder.held == {"run/a": 1}


def test_a_failed_request_for_a_lease_changes_nothing(view: Any, prepared: Any) -> None:
    """EVT-09: neither a refusal nor a failed commit makes a holder forget the number it was fenced by."""
    old, new = Holder(), Holder()
    for holder, transaction in (
        (old, prepared(("run/a", [event()], 0))),
        (new, Transaction([], acquire=("run/a",), steal=True)),
    ):
        ledger = view.ledger(holder)
        ledger.judge(transaction)
        view.commit(ledger)
    with pytest.raises(errors.LeaseHeld):
        view.ledger(old).judge(Transaction([], acquire=("run/a",)))
    view.ledger(old).judge(Transaction([], acquire=("run/a",), steal=True))  # and this commit never became durable
    assert old.held == {"run/a": 1}
    with pytest.raises(errors.LeaseLost) as refused:
        view.ledger(old).judge(prepared(("run/a", [event()], 1)))
    assert (refused.value.held, refused.value.number) == (1, 2)


def test_a_dead_holder_is_succeeded_with_a_higher_number(view: Any, prepared: Any) -> None:
    """EVT-09: each lease on a run has a number greater than all before it, given back or not."""
    numbers = []
    for _ in range(4):
        holder = Holder()
        ledger = view.ledger(holder)
        ledger.judge(prepared(("run/a", [event()], ANY)))
        ledger.judge(Transaction([], release=("run/a",)))
        view.commit(ledger)
        assert holder.held == {}
        numbers.append(view.leases["run/a"].number)
    assert numbers == [1, 2, 3, 4]


def test_a_holder_on_another_host_counts_as_alive(view: Any, prepared: Any) -> None:
    """EVT-09: nobody can tell whether it is dead, so it is refused unless the lease is stolen on purpose."""
    far = Holder()
    far.owner = Owner("another-host.invalid", 1, 1, "0" * 16)
    ledger = view.ledger(far)
    ledger.judge(prepared(("run/a", [event()], 0)))
    view.commit(ledger)
    near = view.ledger(Holder())
    with pytest.raises(errors.LeaseHeld) as refused:
        near.judge(prepared(("run/a", [event()], 1)))
    assert "another-host.invalid" in str(refused.value)
    near.judge(Transaction([], acquire=("run/a",), steal=True))
    assert near.judge(prepared(("run/a", [event()], 1)))[0].seq == 2


def test_a_released_lease_of_somebody_else_stays(view: Any, prepared: Any) -> None:
    """EVT-09: only its holder gives a lease back."""
    holder = Holder()
    ledger = view.ledger(holder)
    ledger.judge(prepared(("run/a", [event()], 0)))
    view.commit(ledger)
    other = view.ledger(Holder())
    other.judge(Transaction([], release=("run/a",)))
    view.commit(other)
    assert view.leases["run/a"].owner == holder.owner


def test_numbers_of_a_source_are_assigned_in_the_commit(view: Any, prepared: Any) -> None:
    """LH-03: given numbers may leap; the next assigned one goes on from there, inside one commit too."""
    ledger = view.ledger(Holder())
    for seq in (3, 9):
        ledger.judge(prepared(("order/a", [event(meta={"source": "s", "source_seq": seq})], ANY)))
    assert ledger.sources == {("", "s"): 9}
    with pytest.raises(errors.SourceRepeated):
        ledger.judge(prepared(("order/b", [event(meta={"source": "s", "source_seq": 9})], ANY)))
