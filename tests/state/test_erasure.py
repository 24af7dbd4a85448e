"""Erasure: the payload goes, and with it everything that was made of it."""

from __future__ import annotations

import pytest

from tallystick import NewEvent, Store, errors, state
from tallystick.state import Reducer, Until
from tallystick.store.verify import verify

from .conftest import CLOSED, paid


def test_the_fold_sees_an_erased_event(store: Store, balance: Reducer) -> None:
    """EVT-14, settled 25: the event is folded with the payload None, from snapshots and in full alike."""
    store.append("order/1", paid(1, 2, 4))
    state.make(store, balance, "order/1")
    done = state.erase(store, "order/1", 2, reason="asked for", reducers=[balance])
    assert (done.dropped, done.made, done.salted) == (1, 1, False)
    wanted = {"cents": 5, "types": {"order.paid": 3}, "erased": 1}
    assert state.fold(store, balance, "order/1").value == wanted
    assert state.fold(store, balance, "order/1", snapshots=False).value == wanted
    found = verify(store.log)
    assert (found.problems, found.erased) == ([], 1)
    assert list(state.problems(store, [balance])) == []


def test_snapshots_of_unknown_code_are_dropped(store: Store, balance: Reducer) -> None:
    """Settled 25: what cannot be computed again goes: no snapshot holds an erased payload."""
    store.append("order/1", paid(1, 2, 4))
    kept = state.make(store, balance, "order/1", until=Until(seq=1))
    state.make(store, balance, "order/1")
    state.erase(store, "order/1", 2, reason="asked for")
    assert kept is not None
    assert [entry.id for entry in state.entries(store, "order/1")] == [kept.id]
    assert store.log.snapshots.ids() == [kept.id]
    assert state.fold(store, balance, "order/1").value["cents"] == 5


def test_a_fingerprint_is_sealed_again_or_stale(store: Store, balance: Reducer) -> None:
    """Settled 25: with its reducer it is sealed anew in the same commit, else it says that it is stale."""
    store.append("order/1", paid(1, 2, 4))
    state.seal(store, balance, "order/1")
    done = state.erase(store, "order/1", 1, reason="asked for", reducers=[balance])
    assert done.sealed == 1
    assert state.compare(store, balance, "order/1").equal
    state.erase(store, "order/1", 2, reason="asked for")
    seal = state.latest(store, "order/1")
    assert seal is not None
    assert seal.stale == "seq 2 was erased since"
    assert state.compare(store, balance, "order/1").equal


def test_a_protected_snapshot_is_made_again_and_stays_protected(store: Store, balance: Reducer) -> None:
    """LH-14: erasure is stronger than protection, but what was protected is so again."""
    store.append("order/1", paid(1, 2, 4))
    state.make(store, balance, "order/1", until=Until(seq=2), protect=True)
    state.make(store, balance, "order/1")
    state.erase(store, "order/1", 1, reason="asked for", reducers=[balance])
    assert {entry.fact.seq: entry.protected for entry in state.entries(store, "order/1")} == {3: False, 2: True}


def test_snapshots_of_the_whole_store_are_computed_again(store: Store, total: Reducer) -> None:
    """Settled 25: a state of the whole store does not keep the payload either."""
    store.append("order/1", paid(1))
    store.append("order/2", paid(2))
    state.make(store, total)
    state.erase(store, "order/1", 1, reason="asked for", reducers=[total])
    found = state.fold(store, total)
    assert (found.value["cents"], found.events) == (2, 0)


def test_a_snapshot_that_ends_with_the_event_goes_and_one_before_it_stays(
    store: Store, balance: Reducer, total: Reducer
) -> None:
    """Settled 25: the last event that went into a state is in it as much as the first; one later never was."""
    store.append("order/1", paid(1))
    early = [state.make(store, total), state.make(store, balance, "order/1")]
    store.append("order/1", paid(2))
    state.make(store, total)
    state.make(store, balance, "order/1")
    done = state.erase(store, "order/1", 2, reason="asked for")
    assert (done.dropped, done.made) == (2, 0)
    left = [*state.entries(store, ""), *state.entries(store, "order/1")]
    assert [entry.id for entry in left] == [entry.id for entry in early if entry is not None]


def test_erasure_behind_a_cut_goes_on_from_the_snapshot_there(store: Store, balance: Reducer) -> None:
    """The snapshot at the cut makes it possible to compute everything behind it again."""
    store.append("order/1", [*paid(1), CLOSED, *paid(2), CLOSED])
    state.make(store, balance, "order/1")
    state.prune(store, "order/1", before=3, reducers=[balance], accept=True)
    state.erase(store, "order/1", 3, reason="asked for", reducers=[balance])
    assert state.fold(store, balance, "order/1").value["cents"] == 1
    assert verify(store.log).problems == []


def test_the_last_state_from_before_a_cut_is_not_lost_unasked(store: Store, balance: Reducer) -> None:
    """Erasing what the only covering snapshot stands on needs the reducer, or a yes."""
    store.append("order/1", [*paid(1), CLOSED, *paid(2), CLOSED])
    state.make(store, balance, "order/1")
    state.prune(store, "order/1", before=3, accept=True)
    with pytest.raises(errors.EraseRefused, match="hold what was pruned"):
        state.erase(store, "order/1", 3, reason="asked for")
    assert store.read_stream("order/1", after=2)[0].payload is not None
    state.erase(store, "order/1", 3, reason="asked for", accept=True)
    assert list(state.entries(store, "order/1")) == []


@pytest.mark.parametrize(("stream", "seq"), [("order/1", 0), ("order/1", 9), ("order/none", 1)])
def test_what_is_not_there_cannot_be_erased(store: Store, stream: str, seq: int) -> None:
    """Bad input: a typed refusal, and nothing is written."""
    store.append("order/1", paid(1))
    head = store.head()
    with pytest.raises(errors.EraseRefused):
        state.erase(store, stream, seq, reason="asked for")
    assert store.head() == head


def test_an_event_is_erased_once_and_a_fact_never(store: Store, balance: Reducer) -> None:
    """A second erasure, one of a pruned event and one of a control fact are refused by name."""
    store.append("order/1", [*paid(1), CLOSED, *paid(2)])
    state.erase(store, "order/1", 3, reason="asked for")
    with pytest.raises(errors.EraseRefused, match="already"):
        state.erase(store, "order/1", 3, reason="asked for")
    with pytest.raises(errors.EraseRefused, match="control facts"):
        state.erase(store, "tally.stream/order:1", 1, reason="asked for")
    state.prune(store, "order/1", before=3, reducers=[balance], snapshot=True, accept=True)
    with pytest.raises(errors.EraseRefused, match="pruned"):
        state.erase(store, "order/1", 1, reason="asked for")


def test_a_salt_is_random_and_noticed(store: Store) -> None:
    """Settled 25: a salted payload cannot be guessed back from its checksum; the result says whether it was salted."""
    first, second = state.salted({"name": "Ada"}), state.salted({"name": "Ada"})
    assert first["salt"] != second["salt"]
    assert len(bytes.fromhex(first["salt"])) == 16
    assert state.salted(first) is first
    store.append("person/1", NewEvent("person.named", first))
    assert state.erase(store, "person/1", 1, reason="asked for").salted
