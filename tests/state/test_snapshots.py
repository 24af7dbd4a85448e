"""Snapshots: made with their fact, used only when everything about them is right."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tallystick import NewEvent, Store, errors, state
from tallystick.event import canonical
from tallystick.state import Reducer, Until, diffs, reducer, shelf, snapshots
from tallystick.store import facts
from tallystick.store.maintenance import Maintenance
from tallystick.store.verify import verify
from tallystick.testing.clock import ManualClock

from .conftest import paid


def _forge(store: Store, **changed: Any) -> None:
    """Put a snapshot in place that nobody made by folding."""
    entry = next(state.entries(store, "order/1"))
    body = canonical.encode_state({"cents": 1_000_000, "types": {}, "erased": 0})
    made, fact = state.snapshots.draft(
        store,
        state.as_reducer(reducer(name="balance", initial={})(lambda value, event: value)),
        state.State(value=canonical.decode(body), stream="order/1", seq=entry.fact.seq, position=entry.fact.position),
        incremental=False,
        protect=False,
    )
    fact = msgspec.structs.replace(fact, **({"link": entry.fact.link} | changed))
    store.record([state.snapshots.named(store, made, fact)], maintenance=Maintenance(snapshots=(made,)))


def test_a_snapshot_holds_the_state_of_a_replay(store: Store, balance: Reducer) -> None:
    """EVT-02: its body is the canonical JSON of replaying events 1 to its seq."""
    store.append("order/1", paid(1, 2, 3))
    entry = state.make(store, balance, "order/1")
    assert entry is not None
    found = state.fold(store, balance, "order/1", snapshots=False)
    assert shelf.body_of(store, entry) == found.body
    assert (entry.fact.seq, entry.fact.link, entry.fact.state_hash) == (3, found.link.hex(), found.hash.hex())
    assert verify(store.log).problems == []


def test_a_fold_starts_from_the_latest_snapshot(store: Store, balance: Reducer) -> None:
    """Settled 2: the latest is the one with the highest seq, whenever it was made."""
    store.append("order/1", paid(1, 2, 3))
    latest = state.make(store, balance, "order/1")
    state.make(store, balance, "order/1", until=Until(seq=1))
    store.append("order/1", paid(4))
    found = state.fold(store, balance, "order/1")
    assert latest is not None
    assert (found.value["cents"], found.events, found.snapshot) == (10, 1, latest.id)


def test_a_second_snapshot_at_the_same_place_is_the_first(store: Store, balance: Reducer) -> None:
    """Making one twice writes nothing."""
    store.append("order/1", paid(1))
    first, head = state.make(store, balance, "order/1"), store.head()
    assert state.make(store, balance, "order/1") == first
    assert store.head() == head
    assert state.make(store, balance, "order/none") is None


def test_snapshots_at_one_place_by_other_code_stand_beside_each_other(store: Store, balance: Reducer) -> None:
    """A newer version, and other upcasters, make their own snapshot of the same seq."""
    store.append("order/1", paid(1, 2))
    first = state.make(store, balance, "order/1")
    state.make(store, balance, "order/1", until=Until(seq=1))
    assert state.make(store, balance, "order/1") == first
    state.make(store, msgspec.structs.replace(balance, version=2), "order/1")
    store.catalog.upcaster("order.paid", from_version=1)(lambda data: data)
    other = state.make(store, balance, "order/1")
    protected = state.make(store, balance, "order/1", protect=True)
    assert first is not None
    assert other is not None
    assert protected is not None
    assert (other.id != first.id, protected.id, protected.protected) == (True, other.id, True)
    assert len(list(state.entries(store, "order/1"))) == 4
    assert verify(store.log).problems == []


def test_a_small_change_makes_a_diff_and_a_large_one_a_full_snapshot(store: Store) -> None:
    """LH-13: a diff against the newest full snapshot, unless it is larger than 30 % of it."""
    keeps = reducer(name="keeps", initial={})(lambda value, event: value | event.data)
    store.append("doc/1", NewEvent("set", {f"key{i}": "x" * 20 for i in range(50)}))
    full = state.make(store, keeps, "doc/1")
    store.append("doc/1", NewEvent("set", {"key1": "changed"}))
    diff = state.make(store, keeps, "doc/1")
    store.append("doc/1", NewEvent("set", {f"key{i}": "y" * 20 for i in range(50)}))
    again = state.make(store, keeps, "doc/1")
    assert full is not None
    assert diff is not None
    assert again is not None
    assert [entry.fact.kind for entry in (full, diff, again)] == ["full", "diff", "full"]
    assert diff.fact.base == full.id.hex()
    assert state.fold(store, keeps, "doc/1", until=Until(seq=2)).value["key1"] == "changed"
    assert verify(store.log).problems == []
    assert list(state.problems(store, [keeps])) == []


def test_a_diff_starts_from_the_newest_full_snapshot_by_the_same_code(store: Store) -> None:
    """LH-13: neither a diff nor a snapshot by another version is the base of a diff."""
    keeps = reducer(name="keeps", initial={})(lambda value, event: value | event.data)
    store.append("doc/1", NewEvent("set", {f"key{i}": "x" * 20 for i in range(50)}))
    full = state.make(store, keeps, "doc/1")
    store.append("doc/1", NewEvent("set", {"key1": "changed"}))
    diff = state.make(store, keeps, "doc/1")
    other = state.make(store, msgspec.structs.replace(state.as_reducer(keeps), version=2), "doc/1")
    store.append("doc/1", NewEvent("set", {"key2": "changed"}))
    last = state.make(store, keeps, "doc/1")
    assert full is not None
    assert diff is not None
    assert other is not None
    assert last is not None
    assert [(each.fact.kind, each.fact.base) for each in (diff, other, last)] == [
        ("diff", full.id.hex()),
        ("full", None),
        ("diff", full.id.hex()),
    ]


@pytest.mark.parametrize(("share", "kind"), [(0.29, "diff"), (0.30, "diff"), (0.31, "full"), (0.5, "full")])
def test_a_diff_is_kept_up_to_three_tenths_of_its_base(store: Store, share: float, kind: str) -> None:
    """LH-13: "create full snapshot if diff > 30% of base size": the limit itself is still a diff."""
    keeps = reducer(name="keeps", initial={})(lambda value, event: value | event.data)
    store.append("doc/1", NewEvent("set", {"large": "x" * 10_000, "text": "a"}))
    full = state.make(store, keeps, "doc/1")
    assert full is not None
    base = len(canonical.encode_state({"large": "x" * 10_000, "text": "a"}))
    around = len(canonical.encode_state([{"op": "replace", "path": "/text", "value": ""}]))
    store.append("doc/1", NewEvent("set", {"text": "b" * (int(share * base) - around)}))
    made = state.make(store, keeps, "doc/1")
    assert made is not None
    assert made.fact.kind == kind


@pytest.mark.parametrize(
    ("base", "body"),
    [({"a": 1, "b": "x" * 99}, {"a": True, "b": "x" * 99}), ({"a": [1.0] * 99}, {"a": [1.0] * 98 + [1]}), ([], [0])],
    ids=["number to true", "float to int", "from nothing"],
)
def test_a_patch_that_misses_a_change_is_not_used(base: Any, body: Any) -> None:
    """LH-13: the library holds 1, 1.0 and True for equal; a patch is used only if it leads to the very bytes."""
    old, new = canonical.encode_state(base), canonical.encode_state(body)
    found = diffs.patch(old, new)
    assert found is None or diffs.apply(old, found) == new


def test_a_patch_that_was_tampered_with_leads_nowhere() -> None:
    """LH-12: whatever a damaged diff holds, it gives no state and raises nothing."""
    for found in (b"[", b"{}", b'[{"op":"replace","path":"/none","value":1}]', b'[{"op":"test","path":"","value":0}]'):
        assert diffs.apply(b'{"a":1}', found) is None


@pytest.mark.parametrize(
    "changed", [{"state_hash": "00" * 32}, {"body_hash": "00" * 32}, {"link": "00" * 32}, {"seq": 9}]
)
def test_a_wrong_snapshot_never_changes_the_state(store: Store, balance: Reducer, changed: dict[str, Any]) -> None:
    """LH-12: a fact that does not fit body, state or log is passed over; the state comes from an older one."""
    store.append("order/1", paid(1, 2))
    state.make(store, balance, "order/1")
    with contextlib.suppress(errors.SnapshotUnusable):  # the tables of an engine may refuse it before it happens
        _forge(store, **changed)
    assert state.fold(store, balance, "order/1").value["cents"] == 3


def test_a_snapshot_of_other_code_is_not_used(store: Store, balance: Reducer) -> None:
    """Another version of the reducer starts from the first event, unless it can migrate the old state."""
    store.append("order/1", paid(1, 2))
    state.make(store, balance, "order/1")
    newer = msgspec.structs.replace(balance, version=2)
    assert state.fold(store, newer, "order/1").snapshot is None
    migrating = msgspec.structs.replace(newer, migrate=lambda value, version: value | {"was": version})
    found = state.fold(store, migrating, "order/1")
    assert (found.events, found.value["was"], found.value["cents"]) == (0, 1, 3)


def test_a_whole_store_snapshot_is_of_one_position(store: Store, balance: Reducer, total: Reducer) -> None:
    """LH-15: every registered reducer, and nothing that came after it began."""
    store.append("order/1", paid(1))
    store.append("order/2", paid(2))
    id_ = state.make_all(store, [balance, total])
    store.append("order/1", paid(4))
    found = state.restore_all(store, [balance, total], id_)
    assert found.position == 2
    assert found.states["total"]["cents"] == 3
    assert {name: value["cents"] for name, value in found.states["balance"].items()} == {"order/1": 1, "order/2": 2}
    with pytest.raises(errors.SnapshotUnusable):
        state.restore_all(store, [balance], id_)
    with pytest.raises(errors.SnapshotUnusable):
        state.restore_all(store, [balance], bytes(16))


def test_protection_is_a_fact_and_can_be_lifted(store: Store, balance: Reducer) -> None:
    """LH-14: an operator protects a snapshot, sees it, and takes it back."""
    store.append("order/1", paid(1))
    entry = state.make(store, balance, "order/1")
    assert entry is not None
    state.protect(store, "order/1", entry.id)
    assert [found.protected for found in state.entries(store, "order/1")] == [True]
    state.protect(store, "order/1", entry.id, protected=False)
    assert [found.protected for found in state.entries(store, "order/1")] == [False]
    with pytest.raises(errors.SnapshotUnusable):
        state.protect(store, "order/1", bytes(16))


def test_snapshots_are_there_after_reopening(
    open_store: Callable[..., Store], balance: Reducer, clock: ManualClock
) -> None:
    """LH-12: written with the commit, found again by their facts."""
    store = open_store()
    store.append("order/1", paid(1, 2))
    entry = state.make(store, balance, "order/1")
    assert entry is not None
    if store.log.engine != "memory":
        store.close()
    again = open_store()
    assert state.fold(again, balance, "order/1").snapshot == entry.id


def test_an_invariant_and_a_false_replay_are_found(store: Store, balance: Reducer) -> None:
    """LH-12: validation replays along the snapshots and asks the reducer's own invariants."""
    store.append("order/1", paid(-5))
    state.make(store, balance, "order/1")
    strict = msgspec.structs.replace(balance, invariants=lambda value: ["in debt"] if value["cents"] < 0 else [])
    assert [problem.reason.rpartition(": ")[2] for problem in state.problems(store, [strict])] == ["in debt"]
    store.append("order/1", paid(1))
    liar = msgspec.structs.replace(balance, apply=lambda value, event: value | {"cents": 7})
    state.make(store, liar, "order/1")
    assert any("not what a replay" in problem.reason for problem in state.problems(store, [balance]))


def test_the_facts_carry_the_org_of_their_stream(store: Store, balance: Reducer) -> None:
    """EVT-05: the audit trail of a tenant is a reading by org."""
    store.append("order/1", [NewEvent("order.paid", {"cents": 1}, meta={"org": "acme"})])
    state.make(store, balance, "order/1")
    assert store.read_stream(facts.stream_about("order/1"))[0].metadata == {"org": "acme"}


@pytest.mark.parametrize("busy", [0, 9, 10])
def test_what_needs_a_quiet_stream_is_tried_ten_times(store: Store, busy: int) -> None:
    """A fact that is recorded meanwhile makes it begin again; after ten times the conflict is the answer."""
    store.append("order/1", paid(1))
    tried = []

    def attempt(require: list[tuple[str, int]]) -> int:
        tried.append(require)
        if len(tried) <= busy:
            fact = NewEvent(facts.SNAPSHOTTED, {"try": len(tried)})
            store.record([(shelf.facts_stream("order/1"), fact)])
        store.record([(shelf.facts_stream("order/2"), NewEvent(facts.SNAPSHOTTED, {}))], require=require)
        return len(tried)

    if busy == 10:
        with pytest.raises(errors.Conflict):
            snapshots.retry_on_new_facts(store, "order/1", attempt)
    else:
        assert snapshots.retry_on_new_facts(store, "order/1", attempt) == busy + 1
    assert len(tried) == min(busy + 1, 10)
    assert store.stream_head(shelf.facts_stream("order/2")) is None or busy < 10
