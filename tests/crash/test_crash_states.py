"""Power loss and kill at every operation of a log's life, in every form that the unsynced may be left in."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import errors
from tallystick.event.model import Event
from tallystick.store.verify import verify
from tallystick.testing.crash_states import CrashState, crash_states
from tallystick.testing.simulated_disk import SimulatedDisk

CHUNKS = 8
STATES_MIN = 20_000
APPEND_EVERY = 40


def test_there_are_enough_states(history: Any) -> None:
    """LH-19: the recorded life has at least 20,000 states, kills and power losses both."""
    kinds = [state.choice.kind for state in crash_states(history.disk)]
    assert len(kinds) >= STATES_MIN
    assert set(kinds) == {"kill", "power"}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_acknowledged_is_lost_and_nothing_invented(history: Any, lab: Any, chunk: int) -> None:
    """LH-08, LH-16, LH-19, settled 7 and 15: after any crash the log opens for writing and holds what it should."""
    states = list(crash_states(history.disk))
    share = -(-len(states) // CHUNKS)
    known: dict[frozenset[tuple[str, bytes | None]], list[Event]] = {}
    for number, state in enumerate(states[chunk * share : (chunk + 1) * share]):
        image = frozenset(state.image().items())
        if image not in known:
            disk = state.disk()
            known[image] = opened(lab, state, disk)
            if number % APPEND_EVERY == 0:
                goes_on(lab, history, state, disk)
        history.check(state, known[image])


def opened(lab: Any, state: CrashState, disk: SimulatedDisk) -> list[Event]:
    """The verified events after a crash; a power loss is never an error."""
    try:
        found: list[Event] = lab.recovered(disk)
    except (errors.TallyError, OSError, AssertionError) as problem:
        pytest.fail(f"{type(problem).__name__}: {problem}\n{state.describe()}")
    return found


def goes_on(lab: Any, history: Any, state: CrashState, disk: SimulatedDisk) -> None:
    """The log takes another append, and holds it when it is opened again."""
    with lab.open_store(disk) as store:
        before = len(lab.events_of(store))
        store.append("order/after", lab.event(999))
        assert verify(store.log).ok, state.describe()
    after = opened(lab, state, disk)
    assert len(after) == before + 1, state.describe()
    assert after[:before] == history.events[:before], state.describe()
