"""The n-th operation of each kind fails while segments of a log are compacted, compressed and joined."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tallystick import Store, errors
from tallystick.event.model import Event
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.faults import OPERATIONS, Fault, FaultyFileSystem
from tallystick.testing.simulated_disk import SimulatedDisk

NTH_MAX = 400
SEGMENT_BYTES_MAX = 4096
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EACCES": errno.EACCES}


def start(lab: Any) -> tuple[SimulatedDisk, list[Event]]:
    """A closed log that is pruned, and what is left of it."""
    disk = SimulatedDisk(loses_on_failed_sync=True)
    with lab.open_store(disk, segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        for number in range(30):
            store.append(f"order/{number % 2}", lab.event(number, size=250))
        upkeep.prune(store, "order/0", 12)
        upkeep.prune(store, "order/1", 12)
        return disk, list(store.events(over_pruned=True))


def reclaimed(store: Store) -> bool:
    """Whether reclaiming went through; if not, the error is one of ours."""
    try:
        store.log.reclaim(compress_before=1 << 62, progress=lambda done: None)
    except errors.TallyError:
        return False
    return True


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_failing_operation_loses_nothing(lab: Any, operation: str, error: str, persistent: bool) -> None:
    """LH-09, LH-16, LH-19: errors are typed, the log reads on, and on a healthy disk it opens whole."""
    begun, left = start(lab)
    with lab.open_store(begun.clone(), segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        before = store.report().facts["segments"]
        assert reclaimed(store)
        assert (joined := store.report().facts["segments"]) < before
    for nth in range(1, NTH_MAX):
        disk = begun.clone()
        files = FaultyFileSystem(disk)
        store = lab.open_store(files, segment_bytes_max=SEGMENT_BYTES_MAX)
        files.inject(Fault(operation=operation, nth=nth, error=ERRORS[error], persistent=persistent))
        reclaimed(store)
        fired = files.fired
        files.inject(None)
        assert list(store.events(over_pruned=True)) == left, f"{operation} {nth}"
        store.close()
        with lab.open_store(disk, segment_bytes_max=SEGMENT_BYTES_MAX) as again:
            assert verify(again.log).problems == [], f"{operation} {nth}"
            assert list(again.events(over_pruned=True)) == left
            assert reclaimed(again)
            assert again.report().facts["segments"] == joined, f"{operation} {nth}"
            assert list(again.events(over_pruned=True)) == left
        if not fired:
            return
    pytest.fail("the fault fires for ever")
