"""Power loss and kill at every operation of accepting a loss: no state is a decision by half."""

from __future__ import annotations

from typing import Any

import pytest

import tallystick
from tallystick.engines.files.directory import accept_loss_files
from tallystick.store.damage import problem_of
from tallystick.store.verify import verify
from tallystick.testing.crash_states import crash_states
from tallystick.testing.simulated_disk import SimulatedDisk

PER_MOMENT_MAX = 64
STATES_MIN = 100
EVENTS = 24


@pytest.fixture(params=["sealed", "missing", "current"])
def damaged(request: pytest.FixtureRequest, lab: Any) -> SimulatedDisk:
    """A log of several segments that has lost something, and on record that it has."""
    disk = SimulatedDisk()
    with lab.open_store(disk, segment_bytes_max=4096) as store:
        for number in range(EVENTS):
            store.append(f"order/{number % 2}", lab.event(number, size=250))
    image = disk.image()
    lab.damage(image, request.param)
    found = SimulatedDisk.holding(image)
    with lab.open_store(found) as store:
        verify(store.log)
        store.log.damage.keep(list(map(problem_of, store.holes())))
    return SimulatedDisk.holding(found.image())


def test_after_any_crash_accepting_once_more_ends_well(damaged: SimulatedDisk, lab: Any) -> None:
    """LH-19, settled 15: until it is done nothing can be appended; done again, it loses no more than the first time."""
    with lab.open_store(damaged.clone(), readonly=True) as store:
        left = [event.id for event in store.read(limit=1000, over_holes=True).events]
    recorded = damaged.clone()
    accept_loss_files(lab.directory, clock=lambda: 1, dry_run=False, filesystem=recorded)
    count, known = 0, set()
    for state in crash_states(recorded, per_moment_max=PER_MOMENT_MAX):
        count += 1
        image = frozenset(state.image().items())
        if image in known:
            continue
        known.add(image)
        disk = state.disk()
        with lab.open_store(disk) as store, pytest.raises(tallystick.errors.Damaged):
            store.append("order/after", lab.event(1))
        tallystick.accept_loss(f"files:{lab.directory}", filesystem=disk, clock=lambda: 1_800_000_000_000_000_000)
        with lab.open_store(disk) as store:
            assert (store.holes(), verify(store.log).problems) == ([], []), state.describe()
            there = [event.id for event in store.read(limit=1000, over_holes=True).events]
            assert there[: len(left)] == left, state.describe()
            assert store.append("order/after", lab.event(1)).first_position > EVENTS
    assert count >= STATES_MIN
