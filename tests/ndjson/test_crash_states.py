"""Power loss and kill at every operation of a recorded history, with every fate of unsynced changes."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import errors
from tallystick.testing.crash_states import crash_states

CHUNKS = 4
STATES_MIN = 4_000


def test_there_are_enough_states(history: Any) -> None:
    """RUN-01: the recorded history has thousands of states, with kills and power losses."""
    kinds = [state.choice.kind for state in crash_states(history.disk)]
    assert len(kinds) >= STATES_MIN
    assert set(kinds) == {"kill", "power"}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_commit_is_whole_or_absent_after_any_crash(history: Any, lab: Any, chunk: int) -> None:
    """RUN-01, CP-05: the store opens for writing, has everything that was acknowledged, and accepts appends."""
    known: dict[frozenset[tuple[str, bytes | None]], Any] = {}
    for number, state in enumerate(crash_states(history.disk)):
        if number % CHUNKS != chunk:
            continue
        image = frozenset(state.image().items())
        if image not in known:
            disk = state.disk()
            try:
                known[image] = lab.recovered(disk)
                if len(known) % 10 == 0:
                    goes_on(lab, disk, known[image])
            except (errors.TallyError, OSError, AssertionError) as problem:
                pytest.fail(f"{type(problem).__name__}: {problem}\n{state.describe()}")
        history.check(state, known[image])


def goes_on(lab: Any, disk: Any, before: dict[str, list[Any]]) -> None:
    """Both runs accept another append, and have it after reopening."""
    with lab.open_store(disk) as store:
        for stream in before:
            store.append(stream, lab.event(999))
    after = lab.recovered(disk)
    for stream, events in before.items():
        assert after[stream][:-1] == events
        assert after[stream][-1].data["number"] == 999
