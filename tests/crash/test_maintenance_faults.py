"""The n-th operation of each kind fails while a log is snapshotted, pruned and erased; and disks that are full."""

from __future__ import annotations

import contextlib
import errno
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick import Store, errors
from tallystick.store.maintenance import Maintenance
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import events
from tallystick.testing.faults import OPERATIONS, Fault, FaultyFileSystem
from tallystick.testing.simulated_disk import SimulatedDisk

NTH_MAX = 200
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
LIVES = {"once": False, "from then on": True}
RIG = Path(__file__).with_name("full_disk_rig.py")


def made(store: Store) -> bytes:
    """Snapshot and prune in one commit; the id of the snapshot."""
    snapshot, cut = upkeep.snapshot_of(store, "order/1", b'{"n":1}'), upkeep.cut_of(store, "order/1", 3)
    facts = [upkeep.snapshot_fact(snapshot), upkeep.pruned_fact(cut)]
    store.record(facts, maintenance=Maintenance(snapshots=(snapshot,), cuts=(cut,)))
    return snapshot.id


def maintain(store: Store) -> set[str]:
    """Each kind of maintenance and an append, whatever fails; what was acknowledged."""
    first = store.log.snapshots.ids()[0]
    acts: dict[str, Callable[[], object]] = {
        "made": lambda: made(store),
        "dropped": lambda: upkeep.drop(store, upkeep.snapshot_of(store, "order/0", b"{}", id=first)),
        "erased": lambda: upkeep.erase(store, "order/0", 2),
        "appended": lambda: store.append("order/2", events(1)),
    }
    done = set()
    for name, act in acts.items():
        with contextlib.suppress(errors.TallyError):
            act()
            done.add(name)
    return done


def seen(store: Store) -> set[str]:
    """Which of the acts above the log shows, each whole: verification holds facts against cuts, bodies and payloads."""
    found = verify(store.log)
    assert found.problems == []
    assert store.report().facts["snapshot_orphans"] == []
    facts = store.read_stream("tally.stream/order:0")
    shows = {
        "made": store.cut("order/1") is not None,
        "dropped": any(fact.type == "tally.snapshot.dropped" for fact in facts),
        "erased": store.read_stream("order/0")[1].payload is None,
        "appended": store.stream_head("order/2") is not None,
    }
    return {name for name, is_there in shows.items() if is_there}


def start(lab: Any) -> SimulatedDisk:
    """A closed log with two streams and a snapshot."""
    disk = SimulatedDisk(loses_on_failed_sync=True)
    with lab.open_store(disk) as store:
        store.append("order/0", events(4))
        store.append("order/1", events(4))
        upkeep.snapshot(store, "order/0")
    return disk


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_failing_operation_leaves_nothing_half_done(lab: Any, operation: str, error: str, life: str) -> None:
    """EVT-07, EVT-14, LH-16, LH-19: errors are typed; on a healthy disk what was acknowledged is there, and whole."""
    begun = start(lab)
    for nth in range(1, NTH_MAX):
        disk = begun.clone()
        files = FaultyFileSystem(disk)
        store = lab.open_store(files)
        files.inject(Fault(operation=operation, nth=nth, error=ERRORS[error], persistent=LIVES[life]))
        done = maintain(store)
        store.close()
        with lab.open_store(disk.clone()) as again:
            assert done <= seen(again), f"{operation} {nth}"
        if not files.fired:
            return
    pytest.fail("the fault fires for ever")


def test_a_disk_that_fills_up_byte_by_byte_never_shows_half_of_it(lab: Any) -> None:
    """LH-16, EVT-07: with any number of free bytes it is there or refused with NoSpace; with room it works again."""
    begun = start(lab)
    outcomes = set()
    for free in range(0, 2500, 29):
        disk = begun.clone()
        store = lab.open_store(disk)
        with store:
            disk.capacity_bytes = sum(len(data) for data in disk.image().values() if data) + free
            done = True
            try:
                made(store)
            except errors.NoSpace:
                done = False
            assert (store.cut("order/1") is not None) == done, free
            assert len(store.log.snapshots.ids()) == 1 + done
            disk.capacity_bytes = None
            if not done:
                made(store)
        with lab.open_store(disk) as again:
            assert "made" in seen(again)
        outcomes.add(done)
    assert outcomes == {True, False}


def test_a_real_disk_that_is_full(tmp_path: Path) -> None:
    """LH-16, EVT-07: on a small tmpfs, snapshots and prunes end with NoSpace, leave nothing, and work with room."""
    tools = [tool for tool in ("unshare", "mount") if shutil.which(tool) is None]
    if tools or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here: run as root on Linux")
    command = ["unshare", "--mount", sys.executable, str(RIG), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
