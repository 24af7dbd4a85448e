"""Recovery is interrupted itself, at each of its operations, and run again."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tallystick.testing.crash_states import CrashState, crash_states

CHUNKS = 4
STATES_EVERY = 211  # of the states of the recorded life; a prime, so that every kind comes up
PER_MOMENT_MAX = 12


@pytest.mark.parametrize("chunk", [0, 1, *(pytest.param(chunk, marks=pytest.mark.slow) for chunk in range(2, CHUNKS))])
def test_an_interrupted_recovery_ends_the_same(history: Any, lab: Any, chunk: int) -> None:
    """LH-16, LH-19: recovery that crashes at any operation and is run again gives what it gives undisturbed."""
    chosen = itertools.islice(crash_states(history.disk), 0, None, STATES_EVERY)
    interrupted = 0
    for state in itertools.islice(chosen, chunk, None, CHUNKS):
        disk = state.disk()
        with lab.open_store(disk) as store:
            opened_after = len(disk.operations)
            expected = lab.events_of(store)
        for again in crash_states(disk, per_moment_max=PER_MOMENT_MAX):
            found = lab.recovered(again.disk())
            interrupted += 1
            where = f"{state.describe()}\nthen, in recovery:\n{again.describe()}"
            if state.choice.kind == "kill" and again.operations < opened_after:
                history.check(state, found)  # nothing was served yet, so what was in flight may still go
            else:
                assert found == expected, where
    assert interrupted > 100


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_what_was_served_after_a_kill_survives_a_power_loss(history: Any, lab: Any, every: int) -> None:
    """LH-19: events that recovery serves are durable, though the process that wrote them never synced them."""
    served = 0
    killed = (state for state in crash_states(history.disk) if state.choice.kind == "kill")
    for state in itertools.islice(killed, 0, None, every):
        least, most = history.at(state.operations)
        if least == most:
            continue
        disk = state.disk()
        store = lab.open_store(disk)
        expected = lab.events_of(store)
        served += len(expected) > least
        last = crash_states(disk, first=len(disk.operations), per_moment_max=64)
        losses = [again for again in last if is_power_loss(again)]
        assert losses
        for again in losses:
            assert lab.recovered(again.disk()) == expected, f"{state.describe()}\n{again.describe()}"
        store.close()
    assert served


def is_power_loss(state: CrashState) -> bool:
    """Whether the crash is not only that of a process."""
    return state.choice.kind == "power"
