"""Damage: state is served in front of it, from a good snapshot, and says what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

import tallystick
from tallystick import errors, state
from tallystick.state import Reducer

from .conftest import paid


def _damage(path: Path, text: bytes) -> None:
    data = bytearray(path.read_bytes())
    place = data.index(text)
    data[place] ^= 1
    path.write_bytes(data)


@pytest.fixture
def damaged(tmp_path: Path, balance: Reducer) -> str:
    """Four commits, a snapshot after the second, and a flipped bit in the third."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as store:
        store.append("order/1", paid(1))
        store.append("order/1", paid(2))
        state.make(store, balance, "order/1")
        store.append("order/1", paid(40_404))
        store.append("order/1", paid(8))
    _damage(tmp_path / "log" / "current.log", b"40404")
    return url


def test_a_damaged_stream_is_refused_unless_degraded(damaged: str, balance: Reducer) -> None:
    """LH-16, settled 15: nothing is computed around a hole; the state in front of it comes from the snapshot."""
    with tallystick.open(damaged) as store:
        with pytest.raises(errors.Damaged):
            state.fold(store, balance, "order/1")
        found = state.fold(store, balance, "order/1", degraded=True)
    assert (found.value["cents"], found.seq, found.events) == (3, 2, 0)
    assert found.snapshot is not None
    assert "damaged" in found.damage


def test_a_snapshot_behind_the_damage_is_as_good_as_ever(tmp_path: Path, balance: Reducer) -> None:
    """LH-16: the hole lies under the snapshot, so the whole state is there."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as store:
        store.append("order/1", paid(1))
        store.append("order/1", paid(40_404))
        store.append("order/1", paid(2))
        state.make(store, balance, "order/1")
        store.append("order/1", paid(8))
    _damage(tmp_path / "log" / "current.log", b"40404")
    with tallystick.open(url) as store:
        found = state.fold(store, balance, "order/1")
    assert (found.value["cents"], found.damage) == (40_415, "")


def test_a_whole_log_has_no_damage_to_tell(tmp_path: Path, balance: Reducer) -> None:
    """Degraded or not, a good log gives the same."""
    with tallystick.open(f"files:{tmp_path}/log") as store:
        store.append("order/1", paid(1, 2, 3))
        found = state.fold(store, balance, "order/1", degraded=True)
    assert (found.value["cents"], found.seq, found.damage) == (6, 3, "")
