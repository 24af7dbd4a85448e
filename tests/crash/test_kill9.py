"""A real process on a real disk, killed with SIGKILL at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tallystick
from tallystick.store.verify import verify

ROUNDS = int(os.environ.get("TALLY_KILL_ROUNDS", "100"))
ROUNDS_PER_STORE = 10
DELAY_S_MAX = 0.03
EVENTS_IN_FLIGHT_MAX = 15

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the writer forks")


@pytest.fixture
def writer() -> Iterator[subprocess.Popen[str]]:
    """The process that forks writers."""
    script = Path(__file__).with_name("kill9_writer.py")
    process = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        yield process
        process.stdin.close()
        process.wait(timeout=30)


def killed_round(process: subprocess.Popen[str], directory: str, dice: random.Random) -> dict[str, tuple[int, str]]:
    """Let a writer run until it is killed; the last acknowledged seq and link of each stream."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{directory} {dice.random()}\n")
    process.stdin.flush()
    acknowledged: dict[str, tuple[int, str]] = {}
    killer: threading.Timer | None = None
    pid = 0
    for line in process.stdout:
        word, *values = line.split()
        if word == "pid":
            pid = int(values[0])
        elif word == "ack":
            acknowledged[values[0]] = (int(values[1]), values[2])
        else:
            assert values == [str(-signal.SIGKILL)], "the writer failed by itself"
            break
        if pid and killer is None and (acknowledged or dice.random() < 0.2):
            killer = threading.Timer(dice.random() * DELAY_S_MAX, os.kill, (pid, signal.SIGKILL))
            killer.start()
    if killer is not None:
        killer.join()
    return acknowledged


def test_every_acknowledged_event_is_there_after_sigkill(writer: subprocess.Popen[str], tmp_path: Path) -> None:
    """LH-19: after each of 100 kills every acknowledged event is there, in order, and at most one commit more."""
    dice = random.Random(9)
    heads: dict[str, int] = {}
    acknowledgements = 0
    for number in range(ROUNDS):
        directory = tmp_path / f"store{number // ROUNDS_PER_STORE}"
        if number % ROUNDS_PER_STORE == 0:
            heads = {}
        acknowledged = killed_round(writer, str(directory), dice)
        acknowledgements += len(acknowledged)
        heads = checked(directory, acknowledged, heads)
    assert acknowledgements > ROUNDS


def checked(directory: Path, acknowledged: dict[str, tuple[int, str]], before: dict[str, int]) -> dict[str, int]:
    """Open the store and look for everything that was acknowledged; returns how long each stream is now."""
    with tallystick.open(f"files:{directory}") as store:
        found = verify(store.log)
        assert found.ok, found.problems
        for stream, (seq, link) in acknowledged.items():
            event = store.read_stream(stream, after=seq - 1, limit=1)[0]
            assert (event.seq, event.link.hex()) == (seq, link)
        heads = {info.stream: info.seq for info in store.streams()}
    required = before | {stream: seq for stream, (seq, _) in acknowledged.items()}
    assert all(heads.get(stream, 0) >= seq for stream, seq in required.items())
    assert sum(heads.values()) - sum(required.values()) <= EVENTS_IN_FLIGHT_MAX
    return heads
