"""Pruning: only what is covered, only at a boundary, with everything that must survive."""

from __future__ import annotations

import pytest

from tallystick import Store, errors, state
from tallystick.state import Reducer, Until, shelf
from tallystick.store import control
from tallystick.store.selection import select
from tallystick.store.verify import verify

from .conftest import CLOSED, paid


def _order(store: Store, steps: int = 2) -> None:
    """Steps of three events, each ending with order.closed."""
    for _ in range(steps):
        store.append("order/1", [*paid(1, 2), CLOSED])


def _refused(store: Store, before: int, balance: Reducer, **options: bool) -> str:
    with pytest.raises(errors.PruneRefused) as refusal:
        state.prune(store, "order/1", before=before, reducers=[balance], **({"accept": True} | options))
    assert store.cut("order/1") is None
    return str(refusal.value.reason)


def test_nothing_is_pruned_without_a_snapshot(store: Store, balance: Reducer) -> None:
    """EVT-03: "cannot prune without snapshot"."""
    _order(store)
    assert "cannot prune without snapshot" in _refused(store, 4, balance)
    with pytest.raises(errors.PruneRefused, match="cannot prune without snapshot"):
        state.prune(store, "order/1", before=4, accept=True)


def test_nothing_is_pruned_past_the_snapshot(store: Store, balance: Reducer) -> None:
    """EVT-03: "prune boundary exceeds snapshot coverage"."""
    _order(store)
    state.make(store, balance, "order/1", until=Until(seq=3))
    assert "prune boundary exceeds snapshot coverage" in _refused(store, 7, balance)


def test_nothing_is_pruned_inside_a_step(store: Store, balance: Reducer) -> None:
    """EVT-08: a cut falls behind an event that ends a step."""
    _order(store)
    state.make(store, balance, "order/1")
    assert "does not end a step" in _refused(store, 3, balance)


def test_nothing_is_pruned_before_a_consumer_has_seen_it(store: Store, balance: Reducer) -> None:
    """CP-07: a registered checkpoint before the cut stands against it, by name."""
    _order(store)
    state.make(store, balance, "order/1")
    store.save_checkpoint("mailer", 2)
    assert "consumer 'mailer' is at position 2" in _refused(store, 4, balance)
    store.save_checkpoint("mailer", 3)
    assert state.prune(store, "order/1", before=4, reducers=[balance], accept=True) == 3


def test_without_an_archive_it_must_be_accepted(store: Store, balance: Reducer) -> None:
    """Settled 17: what loses rebuildability is listed, and asks for a yes."""
    _order(store)
    state.make(store, balance, "order/1")
    reason = _refused(store, 4, balance, accept=False)
    assert "reducer balance" in reason
    assert "--accept" in reason


def test_what_is_no_stream_of_events_is_refused_by_name(store: Store, balance: Reducer) -> None:
    """Bad input: a stream that never was, and the store's own facts."""
    _order(store)
    state.make(store, balance, "order/1")
    for stream, reason in (("order/none", "there is no such stream"), (shelf.facts_stream("order/1"), "never pruned")):
        with pytest.raises(errors.PruneRefused, match=reason):
            state.prune(store, stream, before=2, accept=True)


@pytest.mark.parametrize("before", [0, 1, 8, 99])
def test_a_boundary_outside_of_the_stream_is_refused(store: Store, balance: Reducer, before: int) -> None:
    """Bad input: the refusal says where the stream begins and ends."""
    _order(store)
    state.make(store, balance, "order/1")
    assert "ends at 6" in _refused(store, before, balance)


def test_a_plan_says_what_would_go_and_changes_nothing(store: Store, balance: Reducer) -> None:
    """`--dry-run`: the count, the cover, and every reason against it."""
    _order(store)
    state.make(store, balance, "order/1")
    head = store.head()
    found = state.plan(store, "order/1", before=3, reducers=[balance])
    assert (found.count, found.ok, len(found.refusals)) == (2, False, 2)
    assert state.plan(store, "order/1", before=4, reducers=[balance], accept=True).ok
    assert (store.head(), store.cut("order/1")) == (head, None)


def test_replay_after_a_prune_gives_the_same_fingerprint(store: Store, balance: Reducer) -> None:
    """EVT-04, settled 3: full before, snapshot + tail after: one fingerprint."""
    _order(store, 3)
    sealed = state.seal(store, balance, "order/1")
    before = state.compare(store, balance, "order/1")
    state.make(store, balance, "order/1", until=Until(seq=6))
    assert state.prune(store, "order/1", before=7, reducers=[balance], accept=True) == 6
    after = state.compare(store, balance, "order/1")
    assert before.full == before.resumed == bytes.fromhex(sealed.fingerprint) == after.resumed
    assert (after.full, after.equal) == (None, True)
    with pytest.raises(errors.HistoryPruned):
        state.fold(store, balance, "order/1", snapshots=False)
    assert verify(store.log).problems == []
    assert list(state.problems(store, [balance])) == []


def test_snapshot_and_prune_in_one_go(store: Store, balance: Reducer) -> None:
    """EVT-07: with `snapshot` the covering snapshot comes in the commit of the cut."""
    _order(store)
    assert state.prune(store, "order/1", before=4, reducers=[balance], snapshot=True, accept=True) == 3
    assert [entry.fact.seq for entry in state.entries(store, "order/1")] == [3]
    assert state.fold(store, balance, "order/1").value["cents"] == 6


def test_pruning_goes_on_from_the_last_cut(store: Store, balance: Reducer) -> None:
    """Twice pruned, the second count is what went the second time."""
    _order(store, 3)
    assert state.prune(store, "order/1", before=4, reducers=[balance], snapshot=True, accept=True) == 3
    assert state.prune(store, "order/1", before=7, reducers=[balance], snapshot=True, accept=True) == 3
    assert state.fold(store, balance, "order/1").value["cents"] == 9
    cut = store.cut("order/1")
    assert cut is not None
    assert (cut.through, cut.count, cut.first_position) == (6, 6, 1)
    assert verify(store.log).problems == []


def test_a_snapshot_that_a_replay_contradicts_covers_nothing(store: Store, balance: Reducer) -> None:
    """EVT-03: the covering snapshot is verified by replay before anything goes."""
    import msgspec

    _order(store)
    liar = msgspec.structs.replace(balance, apply=lambda value, event: value | {"cents": 7})
    state.make(store, liar, "order/1")
    assert "is not what a replay gives" in _refused(store, 4, balance)


def test_a_reducer_of_the_whole_store_stands_against_it_until_it_is_covered(
    store: Store, balance: Reducer, total: Reducer
) -> None:
    """Settled 17: its snapshot must lie behind everything that goes."""
    _order(store)
    state.make(store, balance, "order/1")
    with pytest.raises(errors.PruneRefused, match="folds the whole store"):
        state.prune(store, "order/1", before=4, reducers=[balance, total], accept=True)
    state.make(store, total)
    state.prune(store, "order/1", before=4, reducers=[balance, total], accept=True)
    store.append("order/2", paid(5))
    assert state.fold(store, total).value["cents"] == 11


def test_the_audit_trail_survives_every_prune(store: Store, balance: Reducer) -> None:
    """EVT-05: the facts of what was done are all there, and none of them can be pruned."""
    _order(store, 3)
    for before in (4, 7):
        state.prune(store, "order/1", before=before, reducers=[balance], snapshot=True, accept=True)
    trail = [event.type for event in control.audit(store.log)]
    assert trail.count("tally.pruned") == 2
    with pytest.raises(errors.PruneRefused, match="control facts"):
        state.prune(store, "tally.stream/order:1", before=2, accept=True)


def test_readers_of_what_is_left_go_on(store: Store, balance: Reducer) -> None:
    """A reader behind the floor, and one of another stream, notice nothing."""
    _order(store)
    store.append("order/2", paid(1))
    state.prune(store, "order/1", before=4, reducers=[balance], snapshot=True, accept=True)
    assert [event.seq for event in store.read(after=store.floor()).events if event.stream == "order/1"] == [4, 5, 6]
    assert [event.seq for event in store.read(selection=select(stream="order/2")).events] == [1]
