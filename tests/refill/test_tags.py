"""What queries ask of events after a refill: those of a copy come with what its prune kept of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tallystick
from tallystick import NewEvent, errors, match
from tallystick.store.query import Condition
from tallystick.store.verify import verify
from tallystick.testing import upkeep

SMALL = 4096


@pytest.fixture
def pruned(directory: Path) -> Path:
    """A closed log of several segments whose first events were pruned and left out of their frames."""
    with tallystick.open(f"files:{directory}", segment_bytes_max=SMALL) as store:
        for number in range(60):
            event = NewEvent("account.opened", {"text": "x" * 100}, tags=[f"name:{number}"])
            store.append(f"account/{number % 2}", event)
        upkeep.prune(store, "account/0", 20)
        assert store.log.reclaim(compress_before=None, progress=lambda position: None).done
    return directory


@pytest.mark.parametrize("index", ["with its index", "without"])
def test_a_refill_from_a_copy_keeps_names_taken(pruned: Path, tmp_path: Path, index: str) -> None:
    """TAG-03: pruned and erased or not, what matched before matches after it, whatever file was lost."""
    copy = Path(shutil.copytree(pruned, tmp_path / "copy"))
    first = sorted(pruned.glob("2*.log"))[0]
    first.unlink()
    if index == "without":
        for path in (pruned / "index").glob(f"{first.stem}.*"):
            path.unlink()
    tallystick.refill(f"files:{pruned}", f"files:{copy}")
    with tallystick.open(f"files:{pruned}") as store:
        assert verify(store.log).ok
        for number in range(60):
            found = store.log.matches(Condition(match(types=["account.opened"], tags=[f"name:{number}"])), limit=9)  # type: ignore[attr-defined]
            assert found == [number + 1]
        with pytest.raises(errors.ConditionFailed):
            store.append("account/9", NewEvent("account.opened", {}), unless=match(tags=["name:2"]))
        with pytest.raises(errors.HistoryPruned):
            store.consult(match(tags=["name:2"]))


def test_an_accepted_loss_refuses_conditions_over_it(directory: Path) -> None:
    """TAG-03: a lost event may have had the name, so it cannot be said to be free; past the loss it can."""
    with tallystick.open(f"files:{directory}", segment_bytes_max=SMALL) as store:
        for number in range(60):
            event = NewEvent("account.opened", {"text": "x" * 100}, tags=[f"name:{number}"])
            store.append(f"account/{number % 2}", event)
    sorted(directory.glob("2*.log"))[1].unlink()
    assert tallystick.accept_loss(f"files:{directory}") is not None
    with tallystick.open(f"files:{directory}") as store:
        (loss,) = store.log.losses()
        with pytest.raises(errors.HistoryLost):
            store.append("account/9", NewEvent("account.opened", {}), unless=match(tags=["name:new"]))
        condition = Condition(match(tags=["name:new"]), loss.last)
        assert store.log.matches(condition, limit=1) == []  # type: ignore[attr-defined]
        with pytest.raises(errors.HistoryLost):
            store.consult(match(tags=["name:1"]))
        assert store.consult(match(tags=["name:59"]), after=loss.last).events
