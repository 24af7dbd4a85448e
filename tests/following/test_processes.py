"""One writer process, and readers in other processes that follow every commit through rotations and a crash."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import errors
from tallystick.store.verify import verify

KILLS = 4

Act = Callable[..., Any]


def test_readers_follow_a_writer_through_rotations(act: Act, directory: Path, board: Path, described: Any) -> None:
    """LH-06, LH-07, EVT-06: two readers see each position once, in order, never before it is synced, and agree."""
    tallystick.open(f"files:{directory}").close()
    readers = [act("read", directory, board, limit) for limit in (7, 1000)]
    assert [reader.line() for reader in readers] == ["ready", "ready"]  # both opened before the first append
    acknowledged = act("write", directory, board, "a", 400).rest()
    assert acknowledged == sorted(acknowledged)
    with tallystick.open(f"files:{directory}") as store:
        assert store.head() == acknowledged[-1]
        assert len(list(directory.glob("*_*.log"))) >= 5, "rotated"
        assert verify(store.log).ok
        truth = described(store)
    assert [reader.rest()[-1] for reader in readers] == [truth, truth]


def test_readers_follow_a_log_whose_writer_is_killed_again_and_again(
    act: Act, directory: Path, board: Path, described: Any
) -> None:
    """LH-07: recovery removes nothing that a reader has seen, and shows nothing twice."""
    dice = random.Random(4)
    tallystick.open(f"files:{directory}").close()
    readers = [act("read", directory, board, 100), act("read", directory, board, 3)]
    assert [reader.line() for reader in readers] == ["ready", "ready"]
    acknowledged = 0
    for number in range(KILLS):
        writer = act("write", directory, board, number, 100_000)
        for _ in range(dice.randrange(20, 80)):
            writer.line()
        acknowledged = max(acknowledged, *writer.kill())
    act("write", directory, board, "last", 50).rest()
    with tallystick.open(f"files:{directory}") as store:
        assert store.head() > acknowledged
        assert verify(store.log).ok
        truth = described(store)
    assert [reader.rest()[-1] for reader in readers] == [truth, truth]


def test_a_reader_that_comes_late_catches_up_while_the_writer_writes(
    act: Act, directory: Path, board: Path, described: Any
) -> None:
    """EVT-06: a reader opened in the middle reads the past in pages and then follows."""
    writer = act("write", directory, board, "b", 300)
    for _ in range(60):
        writer.line()
    reader = act("read", directory, board, 50)
    assert reader.line() == "ready"
    assert not isinstance(reader.line(), str)
    writer.rest()
    with tallystick.open(f"files:{directory}", readonly=True) as store:
        assert reader.rest()[-1] == described(store)


def test_a_second_writer_learns_who_writes(act: Act, directory: Path) -> None:
    """LH-06: a second writer gets StoreLocked with the pid of the first, until that one was killed."""
    tallystick.open(f"files:{directory}").close()
    board = directory.parent / "other"
    board.write_bytes(bytes(16))
    writer = act("write", directory, board, "c", 100_000)
    writer.line()
    with pytest.raises(errors.StoreLocked) as refused:
        tallystick.open(f"files:{directory}")
    assert str(writer.process.pid) in str(refused.value)
    told = act("lock", directory).rest()[-1]
    assert (told["error"], told["values"]["owner"]) == ("StoreLocked", f"pid {writer.process.pid}")
    writer.kill()
    assert act("lock", directory).rest() == ["opened"]


@pytest.mark.parametrize("engine", ["files", "sqlite"])
def test_there_is_nothing_to_read_where_no_store_is(engine: str, directory: Path) -> None:
    """LH-06: a reader does not create a store, and does not accept an empty directory as one."""
    if engine == "files":
        directory.mkdir()
    with pytest.raises(errors.StoreNotFound):
        tallystick.open(f"{engine}:{directory}", readonly=True)
    assert not directory.exists() or not list(directory.iterdir())
