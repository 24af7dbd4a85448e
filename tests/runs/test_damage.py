"""Damage in any file of a run: it is named, or it makes no difference; it never makes another answer."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import errors, runs
from tallystick.runs import Workflow, snapshot

FLIPS = 120


@pytest.fixture
def directory(shelf: Any) -> Path:
    """A store with one small run that has finished."""
    flow = Workflow("small")
    flow.add("a", lambda work: work.write("x", "1"), outputs=["x"])
    flow.add("b", lambda work: None, inputs=["x"])
    with shelf.open() as store:
        runs.start(store, flow, run="r")
    return shelf.root / "log"


def told(directory: Path) -> bytes | None:
    """What a reader says of the run; None if it refuses because of damage."""
    try:
        with tallystick.open(f"ndjson:{directory}", readonly=True) as store:
            return snapshot.encode(runs.load(store, "r").state)
    except (errors.Damaged, errors.UnknownUrl, errors.NewerFormat, errors.InvalidValue):
        return None


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("runs/r/events.ndjson", True),
        ("runs/r/synced", False),
        ("runs/r/snapshot.json", False),
        ("runs/r/lease.ndjson", False),
        ("streams.ndjson", False),
    ],
)
def test_a_flipped_bit_never_makes_another_answer(directory: Path, name: str, refused: bool) -> None:
    """RUN-04, RUN-05: in the log it is refused by name, wherever it is; elsewhere the answer is the same."""
    truth = told(directory)
    assert truth is not None
    path = directory / name
    data = path.read_bytes()
    dice = random.Random(name)
    for bit in [dice.randrange(len(data) * 8) for _ in range(FLIPS)]:
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert told(directory) == (None if refused else truth), f"bit {bit}"


@pytest.mark.parametrize("name", ["runs/r/synced", "runs/r/lease.ndjson", "streams.ndjson", "runs/r/snapshot.json"])
def test_a_lost_file_beside_the_log_loses_no_run(directory: Path, name: str) -> None:
    """RUN-04: a reader tells the same without it, and lists the run; the next writer puts it in place."""
    truth = told(directory)
    os.unlink(directory / name)
    assert told(directory) == truth
    with tallystick.open(f"ndjson:{directory}", readonly=True) as store:
        assert list(runs.run_ids(store)) == ["r"]
    with tallystick.open(f"ndjson:{directory}") as store:
        store.acquire_lease("run/r")
        assert runs.replay(store, "r").seq in (0, runs.load(store, "r").state.seq)
    assert (directory / name).exists()
    assert told(directory) == truth


def test_replay_does_not_cut_a_snapshot_down_to_damage(directory: Path) -> None:
    """RUN-03, RUN-05: a snapshot that is true is not replaced by one of the events before a damaged line."""
    path = directory / "runs/r/events.ndjson"
    lines = path.read_bytes().split(b"\n")
    lines[5] = lines[5].replace(b"seq", b"sea")
    path.write_bytes(b"\n".join(lines))
    kept = (directory / "runs/r/snapshot.json").read_bytes()
    with tallystick.open(f"ndjson:{directory}") as store, pytest.raises(errors.Damaged):
        runs.replay(store, "r")
    assert (directory / "runs/r/snapshot.json").read_bytes() == kept


def test_a_restored_log_takes_the_failure_away(directory: Path) -> None:
    """RUN-05, settled 22: the blocker stands beside the log as long as it cannot be read, and no longer."""
    path, failure = directory / "runs/r/events.ndjson", directory / "runs/r/failure.json"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"seq", b"sea", 1))
    flow = Workflow("small")
    flow.add("a", lambda work: work.write("x", "1"), outputs=["x"])
    with tallystick.open(f"ndjson:{directory}") as store, pytest.raises(errors.SnapshotInvalid):
        runs.resume(store, flow, "r")
    assert failure.exists()
    path.write_bytes(data)
    with tallystick.open(f"ndjson:{directory}") as store:
        assert runs.resume(store, flow, "r", accept_changes=True).run_state == "finished"
        assert runs.replay(store, "r").equal
    assert not failure.exists()


def test_an_artifact_that_cannot_be_read_is_not_taken_for_gone(directory: Path) -> None:
    """RUN-07: a circle of links is refused by name, and nothing is made again or written."""
    place = directory / "runs/r/artifacts/x"
    place.unlink()
    place.symlink_to("x")
    flow = Workflow("small")
    flow.add("a", lambda work: work.write("x", "1"), outputs=["x"])
    with tallystick.open(f"ndjson:{directory}") as store:
        before = store.stream_head("run/r")
        with pytest.raises(errors.ReadFailed):
            runs.resume(store, flow, "r", accept_changes=True)
        assert store.stream_head("run/r") == before
