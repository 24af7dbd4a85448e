"""What nobody is entitled to have done: verification tells it from what a control fact tells of."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tallystick import Store, errors
from tallystick.store.commit import Transaction
from tallystick.store.maintenance import Maintenance
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import events

Forge = Callable[[Store], None]


def _cut_without_a_fact(store: Store) -> None:
    cut = upkeep.cut_of(store, "order/1", 2)
    _commit(store, Maintenance(cuts=(cut,)))


def _cut_with_another_link(store: Store) -> None:
    cut = upkeep.cut_of(store, "order/1", 2)
    fact = upkeep.pruned_fact(msgspec.structs.replace(cut, link=b"x" * 32))
    store.record([fact], maintenance=Maintenance(cuts=(cut,)))


def _fact_without_a_cut(store: Store) -> None:
    store.record([upkeep.pruned_fact(upkeep.cut_of(store, "order/1", 2))])


def _erasure_without_a_fact(store: Store) -> None:
    erasure = upkeep.erasure_of(store.read_stream("order/1")[1])
    _commit(store, Maintenance(erasures=(erasure,)))


def _erasure_of_another_checksum(store: Store) -> None:
    erasure = upkeep.erasure_of(store.read_stream("order/1")[1])
    fact = upkeep.erased_fact(msgspec.structs.replace(erasure, checksum=b"x" * 32))
    store.record([fact], maintenance=Maintenance(erasures=(erasure,)))


def _fact_of_an_erasure_that_was_none(store: Store) -> None:
    store.record([upkeep.erased_fact(upkeep.erasure_of(store.read_stream("order/1")[1]))])


def _body_without_a_fact(store: Store) -> None:
    _commit(store, Maintenance(snapshots=(upkeep.snapshot_of(store, "order/1", b"{}"),)))


def _fact_of_a_snapshot_that_was_none(store: Store) -> None:
    store.record([upkeep.snapshot_fact(upkeep.snapshot_of(store, "order/1", b"{}"))])


def _body_that_is_not_the_one_of_the_fact(store: Store) -> None:
    made = upkeep.snapshot_of(store, "order/1", b"{}")
    other = msgspec.structs.replace(made, body=b'{"cents":1}')
    store.record([upkeep.snapshot_fact(made)], maintenance=Maintenance(snapshots=(other,)))


def _commit(store: Store, maintenance: Maintenance) -> None:
    outcome = store.log.commit([Transaction([], maintenance=maintenance)])[0]
    if isinstance(outcome, errors.TallyError):
        raise outcome


@pytest.mark.parametrize(
    ("forge", "what"),
    [
        (_cut_without_a_fact, "cut"),
        (_cut_with_another_link, "cut"),
        (_fact_without_a_cut, "cut"),
        (_erasure_without_a_fact, "erasure"),
        (_erasure_of_another_checksum, "erasure"),
        (_fact_of_an_erasure_that_was_none, "erasure"),
        (_body_without_a_fact, "snapshot"),
        (_fact_of_a_snapshot_that_was_none, "snapshot"),
        (_body_that_is_not_the_one_of_the_fact, "snapshot"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else None,
)
def test_a_forgery_is_refused_by_the_engine_or_found_by_verify(store: Store, forge: Forge, what: str) -> None:
    """PIPE-03, EVT-14: a forged tombstone, a fake erased mark, an invented snapshot: none of them passes for real."""
    store.append("order/1", events(4))
    try:
        forge(store)
    except errors.TallyError:  # the tables of an engine may refuse it before it happens
        assert verify(store.log).problems == []
        return
    found = verify(store.log).problems
    assert what in {problem.what for problem in found}


def test_what_was_really_done_raises_no_alarm(store: Store) -> None:
    """The same deeds with their facts verify clean."""
    store.append("order/1", events(6))
    upkeep.snapshot(store, "order/1")
    upkeep.prune(store, "order/1", 2)
    upkeep.erase(store, "order/1", 4)
    found = verify(store.log)
    assert (found.problems, found.pruned, found.erased, found.snapshots) == ([], 2, 1, 1)
