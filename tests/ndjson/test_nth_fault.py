"""The n-th operation of each kind fails, for every n, in every phase of a run."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from typing import Any

import pytest

from tallystick import errors
from tallystick.testing.crash_states import crash_states
from tallystick.testing.faults import OPERATIONS, Fault, FaultyFileSystem
from tallystick.testing.simulated_disk import SimulatedDisk

NTH_MAX = 200
KNOWN = 4
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}


def clean(lab: Any) -> SimulatedDisk:
    """A run that was closed."""
    disk = SimulatedDisk(loses_on_failed_sync=True)
    with lab.open_store(disk) as store:
        store.append("run/a", [lab.event(number) for number in range(KNOWN)])
    return disk


def left(lab: Any) -> SimulatedDisk:
    """A run whose writer died: an unsynced complete commit, and a torn one after it."""
    disk = SimulatedDisk(loses_on_failed_sync=True)
    store = lab.open_store(disk)
    store.append("run/a", [lab.event(number) for number in range(KNOWN)])
    image = disk.image()
    store.append("run/a", lab.event(KNOWN))
    image[lab.log] = (disk.image()[lab.log] or b"") + b'{"checksum":"torn'
    store.close()
    return SimulatedDisk.holding(image, loses_on_failed_sync=True)


def appending(lab: Any, files: FaultyFileSystem, fail: Callable[[], None]) -> list[bytes]:
    """The disk starts to fail after the run was opened. Then appends to it and to a new run, and a close."""
    links = []
    with lab.open_store(files) as store:
        store.read_stream("run/a")
        fail()
        for number in range(3):
            for stream in ("run/a", "run/b"):
                with contextlib.suppress(errors.TallyError):
                    links.append(store.append(stream, lab.event(100 + number)).link)
    return links


def opening(lab: Any, files: FaultyFileSystem, fail: Callable[[], None]) -> list[bytes]:
    """The disk fails while the store is opened and read. Then an append."""
    fail()
    with lab.open_store(files) as store:
        with contextlib.suppress(errors.TallyError):
            store.read_stream("run/a")
            list(store.events())
            store.streams()
        with contextlib.suppress(errors.TallyError):
            return [store.append("run/a", lab.event(9)).link]
    return []


PHASES = {"append": (clean, appending), "open": (clean, opening), "recovery": (left, opening)}


def runs(lab: Any, phase: str, operation: str, error: int, *, persistent: bool) -> Any:
    """Each failing run of a phase: the fault, the disk that it left, and the links that were acknowledged."""
    make, act = PHASES[phase]
    start = make(lab)
    for nth in range(1, NTH_MAX):
        disk = start.clone()
        files = FaultyFileSystem(disk)
        fault = Fault(operation=operation, nth=nth, error=error, persistent=persistent)
        links: list[bytes] = []
        with contextlib.suppress(errors.TallyError):
            links = act(lab, files, lambda files=files, fault=fault: files.inject(fault))
        if not files.fired:
            return
        yield fault, disk, links
    pytest.fail("the phase does not end")


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("phase", PHASES)
def test_a_failing_operation_loses_nothing(lab: Any, phase: str, operation: str, error: str, persistent: bool) -> None:
    """RUN-01, LH-16, settled 16: errors are typed, and on a healthy disk everything acknowledged is there again."""
    for fault, disk, links in runs(lab, phase, operation, ERRORS[error], persistent=persistent):
        states = [disk.clone()]
        states += [state.disk() for state in crash_states(disk, first=len(disk.operations), per_moment_max=6)]
        for state in states:
            found = [item for events in lab.recovered(state).values() for item in events]
            assert len(found) >= KNOWN, str(fault)
            assert set(links) <= {item.link for item in found}, str(fault)


def test_a_failed_sync_poisons_the_run_until_it_is_reopened(lab: Any) -> None:
    """Settled 16: after one failed fsync every later append to this run is refused. Other runs still work."""
    disk = SimulatedDisk(loses_on_failed_sync=True)
    files = FaultyFileSystem(disk)
    with lab.open_store(files) as store:
        store.append("run/a", lab.event(1))
        store.append("run/b", lab.event(1))
        files.inject(Fault(operation="sync", path_part="runs/a/events"))
        for _ in range(3):
            with pytest.raises(errors.StoreFailed):
                store.append("run/a", lab.event(2))
        store.append("run/b", lab.event(2))
        assert [item.data["number"] for item in store.read_stream("run/a")] == [1]
    with lab.open_store(files) as store:
        served = [item.data["number"] for item in store.read_stream("run/a")]
        store.append("run/a", lab.event(9))
    for state in crash_states(disk, first=len(disk.operations)):
        found = [item.data["number"] for item in lab.recovered(state.disk())["run/a"]]
        assert found == [*served, 9], state.describe()


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(lab: Any) -> None:
    """Settled 16: NoSpace. Nothing is half written, reads work, and with room the same handle appends again."""
    start = clean(lab)
    used = sum(len(data) for data in start.image().values() if data)
    for free in range(0, 1500, 31):
        disk = start.clone()
        with lab.open_store(disk) as store:
            store.read_stream("run/a")
            disk.capacity_bytes = used + free
            done = 0
            for number in range(4):
                with contextlib.suppress(errors.NoSpace):
                    store.append("run/a", lab.event(100 + number))
                    done += 1
            assert done < 4
            assert len(store.read_stream("run/a")) == KNOWN + done
            disk.capacity_bytes = None
            store.append("run/a", lab.event(9))
        assert len(lab.recovered(disk)["run/a"]) == KNOWN + done + 1
