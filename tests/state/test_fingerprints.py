"""Fingerprints: sealed at the end of a stream, stale behind it, compared with what a replay gives."""

from __future__ import annotations

import threading

import msgspec
import pytest

from tallystick import Store, errors, state
from tallystick.state import Reducer
from tallystick.store import facts
from tallystick.store.claims import fingerprint
from tallystick.store.verify import verify

from .conftest import paid


def test_a_fingerprint_covers_history_and_state(store: Store, balance: Reducer) -> None:
    """EVT-04, settled 3: sha256 over the link and the hash of the canonical state, in hex, one a line."""
    done = store.append("order/1", paid(1, 2))
    sealed = state.seal(store, balance, "order/1")
    found = state.fold(store, balance, "order/1")
    assert sealed.fingerprint == fingerprint(done.link, found.hash).hex()
    assert (sealed.seq, sealed.reducer, sealed.reducer_version) == (2, "balance", 1)


def test_a_later_append_makes_it_stale_until_sealed_again(store: Store, balance: Reducer) -> None:
    """EVT-11: stale after an append, fresh after sealing."""
    store.append("order/1", paid(1))
    state.seal(store, balance, "order/1")
    seal = state.latest(store, "order/1")
    assert seal is not None
    assert not seal.stale
    store.append("order/1", paid(2))
    seal = state.latest(store, "order/1")
    assert seal is not None
    assert seal.stale == "the stream continued to seq 2"
    assert state.compare(store, balance, "order/1").equal
    state.seal(store, balance, "order/1")
    assert state.latest(store, "order/1").stale == ""  # type: ignore[union-attr]


def test_a_stream_that_grows_meanwhile_is_never_sealed_at_its_old_end(store: Store, balance: Reducer) -> None:
    """EVT-11: every seal was of the last event at its commit: the fact follows that event and no later one."""
    store.append("order/1", paid(1))
    stop = threading.Event()

    def grow() -> None:
        for amount in range(200):
            store.append("order/1", paid(amount))
            if stop.is_set():
                return

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for _ in range(10):
            try:
                state.seal(store, balance, "order/1")
            except errors.Conflict:  # it grew ten times in a row: refused, not sealed wrongly
                continue
    finally:
        stop.set()
        writer.join()
    ends: dict[int, int] = {}
    for event in store.read(limit=1000).events:
        if event.stream == "order/1":
            ends[event.seq] = event.position
        elif event.type == facts.SEALED:
            assert facts.parse(event, facts.Sealed).seq == max(ends)


def test_other_code_is_not_comparable_and_no_damage(store: Store, balance: Reducer) -> None:
    """A fingerprint of another version says nothing about this one."""
    store.append("order/1", paid(1))
    state.seal(store, balance, "order/1")
    newer = msgspec.structs.replace(balance, version=2, apply=lambda value, event: value)
    found = state.compare(store, newer, "order/1")
    assert (found.stored, found.equal) == (None, True)
    assert "not comparable" in found.reason


def test_a_reducer_that_changed_silently_is_found(store: Store, balance: Reducer) -> None:
    """EVT-04: same name and version, other result: the fingerprint does not agree, and validation says so."""
    store.append("order/1", paid(1, 2))
    state.seal(store, balance, "order/1")
    changed = msgspec.structs.replace(balance, apply=lambda value, event: value)
    assert not state.compare(store, changed, "order/1").equal
    assert [problem.what for problem in state.problems(store, [changed])] == ["fingerprint"]


def test_a_forged_fingerprint_is_found_by_verify(store: Store, balance: Reducer) -> None:
    """A seal over a link that is not there, or whose hash does not follow, is a problem with its place."""
    store.append("order/1", paid(1))
    sealed = state.seal(store, balance, "order/1")
    for changed in ({"fingerprint": "00" * 32}, {"link": "11" * 32}):
        forged = msgspec.structs.replace(sealed, **changed)
        store.record([(facts.stream_about("order/1"), state.fingerprints.as_event(store, forged))])
    assert {problem.what for problem in verify(store.log).problems} == {"fact", "fingerprint"}


def test_nothing_to_seal_is_refused(store: Store, balance: Reducer) -> None:
    """A stream without events has no fingerprint."""
    with pytest.raises(errors.SnapshotUnusable, match="no events"):
        state.seal(store, balance, "order/none")
    assert state.latest(store, "order/none") is None
