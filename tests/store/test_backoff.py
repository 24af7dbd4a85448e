"""Pauses before trying again: longer each time, never the same, bounded, and counted."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest

from tallystick.store.backoff import FIRST_SECONDS, PAUSE_SECONDS_MAX, TRIES_MAX, Backoff, retries
from tallystick.store.filesystem import write_fully
from tallystick.testing.faults import Fault, FaultyFileSystem
from tallystick.testing.simulated_disk import SimulatedDisk


def paused(share: Any) -> list[float]:
    """The pauses of one attempt that never succeeds."""
    slept: list[float] = []
    backoff = Backoff("test", sleep=slept.append, share=share)
    while backoff.pause():
        assert len(slept) <= 1000
    return slept


def test_pauses_double_up_to_a_limit_and_end() -> None:
    """LH-16: "retry with exponential backoff", with a bound in number and in length."""
    longest = paused(lambda: 1.0)
    assert longest[:4] == [FIRST_SECONDS * factor for factor in (1, 2, 4, 8)]
    assert longest[-1] == PAUSE_SECONDS_MAX
    assert len(longest) == TRIES_MAX
    assert sum(longest) < 1


def test_pauses_have_jitter() -> None:
    """LH-16: from a half to the whole; two that collided do not go on in step."""
    assert [2 * pause for pause in paused(lambda: 0.0)] == paused(lambda: 1.0)
    one, other = random.Random(1), random.Random(2)
    assert not set(paused(one.random)) & set(paused(other.random))


def test_progress_begins_the_pauses_again() -> None:
    """LH-16: the bound is on tries without progress."""
    slept: list[float] = []
    backoff = Backoff("test", tries_max=1, sleep=slept.append, share=lambda: 1.0)
    assert (backoff.pause(), backoff.pause()) == (True, False)
    backoff.begin_again()
    assert backoff.pause()
    assert slept == [FIRST_SECONDS, FIRST_SECONDS]


@pytest.mark.parametrize("number", [errno.EINTR, errno.EAGAIN])
def test_a_write_that_is_tried_again_is_counted(number: int) -> None:
    """LH-16, LH-17: what metrics show is what was tried again, and nothing else."""
    disk = SimulatedDisk()
    file = FaultyFileSystem(disk, Fault(operation="write", error=number)).create("a")
    before = retries().get("write", 0)
    write_fully(file, 0, b"data")
    write_fully(file, 4, b"more")
    assert retries()["write"] == before + 1
    assert disk.image()["a"] == b"datamore"
