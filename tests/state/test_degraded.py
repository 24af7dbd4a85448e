"""Damage: state is served in front of it, from a good snapshot, and says what it lacks."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tallystick
import tallystick.aio
from tallystick import errors, state
from tallystick.cli.main import tally
from tallystick.state import Reducer

from .conftest import paid

REDUCERS = """
class All:
    name, version, scope = "all", 1, "store"
    def initial(self):
        return {"n": 0}
    def apply(self, state, event):
        return {"n": state["n"] + 1}

class One(All):
    name, scope = "one", "stream"
"""


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


@pytest.fixture
def damaged_store(tmp_path: Path, total: Reducer) -> str:
    """Three commits in two streams, a snapshot of the store after the second, and a flipped bit in the third."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as store:
        store.append("order/1", paid(1))
        store.append("order/2", paid(2))
        state.make(store, total)
        store.append("order/1", paid(40_404))
        store.append("order/2", paid(8))
    _damage(tmp_path / "log" / "current.log", b"40404")
    return url


@pytest.mark.parametrize("index", ["whole", "gone"])
def test_the_state_of_a_damaged_store_comes_from_its_snapshot(
    damaged_store: str, tmp_path: Path, total: Reducer, index: str
) -> None:
    """LH-16, settled 15: also where nobody knows what streams the damage held. Nothing behind it is folded."""
    if index == "gone":
        (tmp_path / "log" / "index" / "current.idx").unlink()
    with tallystick.open(damaged_store) as store:
        with pytest.raises(errors.Damaged):
            state.fold(store, total)
        found = state.fold(store, total, degraded=True)
        assert (found.value["cents"], found.position, found.events) == (3, 2, 0)
        assert found.snapshot is not None
        assert "damaged" in found.damage
        older = state.fold(store, total, degraded=True, snapshots=False)
        assert (older.body, older.damage) == (found.body, found.damage)


def test_without_a_snapshot_it_is_what_stands_in_front_of_the_damage(damaged_store: str, total: Reducer) -> None:
    """LH-16: a fold up to a place before the damage is whole, and says so."""
    with tallystick.open(damaged_store) as store:
        found = state.fold(store, total, degraded=True, snapshots=False, until=state.Until(position=1))
    assert (found.value["cents"], found.damage) == (1, "")


def test_the_command_says_that_it_is_degraded(
    damaged_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LH-16: exit status 1, the damage in the answer; a stream whose end nobody knows is answered too."""
    (tmp_path / "log" / "index" / "current.idx").unlink()
    (tmp_path / "degraded_reducers.py").write_text(REDUCERS)
    monkeypatch.syspath_prepend(tmp_path)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(tally, ["state", damaged_store, *arguments, "--json"], prog_name="tally")

    for arguments, count in (
        (("--reducer", "degraded_reducers:All"), 2),
        (("order/1", "--reducer", "degraded_reducers:One"), 1),
    ):
        refused = run(*arguments)
        assert (refused.exit_code, json.loads(refused.stderr)["error"]) == (1, "Damaged")
        done = run(*arguments, "--degraded")
        assert done.exit_code == 1
        answer = json.loads(done.stdout)
        assert answer["state"] == {"n": count}
        assert "damaged" in answer["damage"]


def test_tasks_are_answered_alike(damaged_store: str, total: Reducer) -> None:
    """LH-16: the async facade passes it on."""

    async def fold() -> state.State:
        async with await tallystick.aio.open(damaged_store, readonly=True) as shop:
            return await shop.fold(total, degraded=True)

    found = asyncio.run(fold())
    assert (found.value["cents"], found.position) == (3, 2)
    assert "damaged" in found.damage
