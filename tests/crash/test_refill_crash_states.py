"""Power loss and kill at every operation of a refill: what was refilled stays, and the rest can be refilled again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tallystick import Store
from tallystick.engines.files.directory import refill_files
from tallystick.event.model import Event
from tallystick.store.refill import StoreDonor
from tallystick.store.verify import verify
from tallystick.testing.crash_states import crash_states
from tallystick.testing.simulated_disk import SimulatedDisk

SEGMENT_BYTES_MAX = 4096
PER_MOMENT_MAX = 64
STATES_MIN = 100


class Damaged(msgspec.Struct):
    """A log before and after the damage."""

    whole: SimulatedDisk
    damaged: SimulatedDisk
    events: list[Event]


@pytest.fixture(scope="module", params=["sealed", "missing", "current"])
def sample(request: pytest.FixtureRequest, lab: Any) -> Damaged:
    """A log of several segments that has lost something."""
    disk = SimulatedDisk()
    with lab.open_store(disk, segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        for number in range(24):
            store.append(f"order/{number % 2}", lab.event(number, size=250))
        events = list(store.events())
    image = disk.image()
    lab.damage(image, request.param)
    return Damaged(SimulatedDisk.holding(disk.image()), SimulatedDisk.holding(image), events)


def refill(lab: Any, disk: SimulatedDisk, donor: Store) -> None:
    """Refill the log on a disk."""
    refill_files(lab.directory, StoreDonor(donor.log), clock=lambda: 1, progress=lambda done: None, filesystem=disk)


def test_after_any_crash_a_second_refill_ends_well(sample: Damaged, lab: Any) -> None:
    """LH-19, settled 15: no state is worse than before; nothing that was left is lost, and all of it comes back."""
    count = 0
    known: set[frozenset[tuple[str, bytes | None]]] = set()
    with lab.open_store(sample.whole, readonly=True) as donor:
        recorded = sample.damaged.clone()
        first = len(recorded.operations)
        refill(lab, recorded, donor)
        for state in crash_states(recorded, first=first, per_moment_max=PER_MOMENT_MAX):
            count += 1
            image = frozenset(state.image().items())
            if image in known:
                continue
            known.add(image)
            disk = state.disk()
            refill(lab, disk, donor)
            with lab.open_store(disk, segment_bytes_max=SEGMENT_BYTES_MAX) as store:
                assert (store.holes(), verify(store.log).problems) == ([], []), state.describe()
                assert list(store.events()) == sample.events, state.describe()
                store.append("order/after", lab.event(1))
    assert count >= STATES_MIN
