"""The demo as a user runs it: real processes, a real SIGKILL."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tallystick
from examples.demo import traffic

EVENTS = 3000


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "examples.demo", f"--events={EVENTS}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One run of the demo, and the directory of its store."""
    directory = tmp_path_factory.mktemp("demo") / "data"
    return run_demo("--dir", str(directory)), directory


def figure(text: str, name: str) -> str:
    """The last figure with this name in the output."""
    found = re.findall(rf"^\s+{name}\s+([\d,]+)", text, re.MULTILINE)
    return str(found[-1])


def test_the_demo_kills_its_writer_and_loses_nothing(
    shown: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    """LH-19: after kill -9 of the writer everything acknowledged is there, and the demo says so and exits with 0."""
    done, _ = shown
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL" in done.stdout
    assert figure(done.stdout, "acknowledged") == f"{EVENTS:,}"
    assert figure(done.stdout, "found") == f"{EVENTS:,}"
    assert figure(done.stdout, "lost") == "0"
    assert figure(done.stdout, "invented") == "0"


def test_the_demo_archives_verifies_and_rebuilds_on_spark(
    shown: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    """PIPE-02, PIPE-03, PIPE-04, PIPE-08: the same log on Spark, and the plots are where the demo says."""
    done, directory = shown
    assert figure(done.stdout, "archived") == f"{EVENTS:,}"
    assert figure(done.stdout, "verified") == f"{EVENTS:,}"
    assert "as in one process" in done.stdout
    assert (directory / "growth.html").read_text().count("<svg") == 3


def test_the_writer_was_killed_in_the_middle(shown: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    """The first table counts the events acknowledged to the killed writer: some, but not all."""
    told = int(re.findall(r"^\s+acknowledged\s+([\d,]+)", shown[0].stdout, re.MULTILINE)[0].replace(",", ""))
    assert EVENTS * 0.4 < told < EVENTS


def test_the_store_that_the_demo_leaves_can_be_read(shown: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    """The suggested commands have a store to read: every event once, in order, except those it pruned."""
    with tallystick.open(f"files:{shown[1] / 'log'}", readonly=True) as store:
        left = store.events(over_pruned=True)
        numbers = [traffic.event_number(event.id) for event in left if not event.stream.startswith("tally.")]
        pruned = {number for number in range(EVENTS) if store.log.pruned(traffic.event_id(number))}
    assert numbers == [number for number in range(EVENTS) if number not in pruned]
    assert 0 < len(pruned) < 100


def test_the_fingerprint_of_a_pruned_run_still_matches(
    shown: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    """EVT-04: the demo folds, seals, snapshots and prunes a run, and state and fingerprint stay the same."""
    text = shown[0].stdout
    assert re.search(r"^\s+state\s+the same", text, re.MULTILINE)
    assert re.search(r"^\s+fingerprint\s+matches", text, re.MULTILINE)


def test_the_demo_suggests_commands_on_its_own_store(shown: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    """It ends with commands to try next."""
    for action in ("tail", "verify", "doctor"):
        assert re.search(rf"tally {action} files:\S*log\b", shown[0].stdout)


def test_an_acknowledged_event_that_is_not_there_is_found_out(tmp_path: Path) -> None:
    """If the writer acknowledges an event that it did not append, the demo reports a loss and exits with 1."""
    done = run_demo("--dir", str(tmp_path / "data"), "--pretend", "--no-spark")
    assert done.returncode == 1, done.stdout + done.stderr
    assert int(figure(done.stdout, "lost").replace(",", "")) > 0


def test_a_directory_that_is_not_the_demos_is_left_alone(tmp_path: Path) -> None:
    """It empties only a directory that an earlier demo left."""
    precious = tmp_path / "precious.txt"
    precious.write_text("keep me")
    done = run_demo("--dir", str(tmp_path))
    assert done.returncode == 2
    assert precious.read_text() == "keep me"


def test_the_demo_runs_on_sqlite_too(tmp_path: Path) -> None:
    """The demo gives the same result on another engine."""
    done = run_demo("--dir", str(tmp_path / "data"), "--engine", "sqlite", "--no-spark")
    assert done.returncode == 0, done.stdout + done.stderr
    assert figure(done.stdout, "lost") == "0"
