"""The n-th operation of each kind fails, for every n, in every phase of a log's life."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tallystick import errors
from tallystick.store.verify import verify
from tallystick.testing.crash_states import crash_states
from tallystick.testing.faults import OPERATIONS, Fault, FaultyFileSystem
from tallystick.testing.simulated_disk import SimulatedDisk

NTH_MAX = 200
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
LIVES = {"once": False, "from then on": True}

Acknowledged = list[bytes]
Act = Callable[[Any, FaultyFileSystem, Callable[[], None]], Acknowledged]


def append_some(lab: Any, store: Any, *, many: int, size: int) -> Acknowledged:
    """Append one by one; the links of those that were acknowledged."""
    links = []
    for number in range(many):
        with contextlib.suppress(errors.TallyError):
            links.append(store.append("order/1", lab.event(100 + number, size=size)).link)
    return links


def appending(lab: Any, files: FaultyFileSystem, fail: Callable[[], None]) -> Acknowledged:
    """The disk begins to fail after the log was opened; then appends, and a close."""
    with lab.open_store(files) as store:
        fail()
        return append_some(lab, store, many=3, size=20)


def rotating(lab: Any, files: FaultyFileSystem, fail: Callable[[], None]) -> Acknowledged:
    """As above, with appends so large that each seals a segment."""
    with lab.open_store(files) as store:
        fail()
        return append_some(lab, store, many=3, size=3000)


def opening(lab: Any, files: FaultyFileSystem, fail: Callable[[], None]) -> Acknowledged:
    """The disk fails while the log is opened, then an append."""
    fail()
    with lab.open_store(files) as store:
        return append_some(lab, store, many=1, size=20)


def reading(lab: Any, files: FaultyFileSystem, fail: Callable[[], None]) -> Acknowledged:
    """The disk fails while the log is read in every way; what is served is right, or an error says that it is not."""
    with lab.open_store(files) as store:
        ids = [event.id for event in lab.events_of(store)]
    with lab.open_store(files) as store:
        fail()
        for read in (lambda: lab.events_of(store), lambda: store.read_stream("order/0"), lambda: verify(store.log)):
            with contextlib.suppress(errors.TallyError):
                read()
        for id_ in ids:
            with contextlib.suppress(errors.TallyError):
                assert store.find(id_) is not None
        with contextlib.suppress(errors.TallyError):
            store.streams()
    return []


def clean_log(lab: Any) -> SimulatedDisk:
    """A log of two segments that was closed."""
    disk = SimulatedDisk(loses_on_failed_sync=True)
    with lab.open_store(disk) as store:
        for number in range(5):
            store.append("order/0", lab.event(number, size=900))
    return disk


def torn_log(lab: Any) -> SimulatedDisk:
    """A log that was not closed, with an unsynced whole frame, a torn tail after it, and a temporary file."""
    disk = SimulatedDisk(loses_on_failed_sync=True)
    store = lab.open_store(disk)
    for number in range(4):
        store.append("order/0", lab.event(number, size=900))
    image = disk.image()
    store.append("order/0", lab.event(4))
    path = f"{lab.directory}/current.log"
    torn = (disk.image()[path] or b"") + b"\x7a\x6c\x79\x01 torn"
    store.close()
    left = {path: torn, f"{path}.tmp": b"half a header"}
    return SimulatedDisk.holding(image | left, loses_on_failed_sync=True)


def empty_disk(lab: Any) -> SimulatedDisk:
    """Nothing."""
    return SimulatedDisk(loses_on_failed_sync=True)


PHASES: dict[str, tuple[Callable[[Any], SimulatedDisk], Act]] = {
    "append": (clean_log, appending),
    "rotation": (clean_log, rotating),
    "open": (clean_log, opening),
    "read": (clean_log, reading),
    "recovery": (torn_log, opening),
    "creation": (empty_disk, opening),
}


# How many events were acknowledged before each phase.
KNOWN = {"append": 5, "rotation": 5, "open": 5, "read": 5, "recovery": 4, "creation": 0}


def failing_runs(
    lab: Any, phase: str, fault: Fault
) -> Iterator[tuple[Fault, SimulatedDisk, Acknowledged, errors.TallyError | None]]:
    """Run a phase with the fault at n = 1, 2, 3 … until it no longer fires."""
    make, act = PHASES[phase]
    start = make(lab)
    for nth in range(1, NTH_MAX):
        disk = start.clone()
        files = FaultyFileSystem(disk)
        due = Fault(operation=fault.operation, nth=nth, error=fault.error, persistent=fault.persistent)
        refusal, links = None, []
        try:
            links = act(lab, files, lambda files=files, due=due: files.inject(due))
        except errors.TallyError as problem:
            refusal = problem
        if not files.fired:
            return
        yield due, disk, links, refusal
    pytest.fail(f"{fault} fired {NTH_MAX} times: the phase does not end")


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("phase", PHASES)
def test_a_failing_operation_loses_nothing(lab: Any, phase: str, operation: str, error: str, life: str) -> None:
    """LH-16, LH-19, settled 16: errors are typed, and on a healthy disk everything acknowledged is there again."""
    fault = Fault(operation=operation, error=ERRORS[error], persistent=LIVES[life])
    known = KNOWN[phase]
    settle = operation in ("read", "open") and error == "EIO"  # that may be damage: it is on record until it is settled
    for due, disk, links, _ in failing_runs(lab, phase, fault):
        again = lab.recovered(disk.clone(), settle=settle)
        assert len(again) >= known, str(due)
        assert set(links) <= {event.link for event in again}, str(due)
        for state in crash_states(disk, first=len(disk.operations), per_moment_max=8):
            found = lab.recovered(state.disk(), settle=settle)
            assert len(found) >= known, f"{due}\n{state.describe()}"
            assert set(links) <= {event.link for event in found}, f"{due}\n{state.describe()}"


def test_every_kind_of_operation_is_made_to_fail(lab: Any) -> None:
    """LH-16: no kind of operation is spared because no phase happens to do it."""
    for operation in OPERATIONS:
        fault = Fault(operation=operation)
        assert any(True for phase in PHASES for _ in failing_runs(lab, phase, fault)), operation


def test_a_full_disk_that_cannot_be_rolled_back_poisons(lab: Any) -> None:
    """Settled 16: when the half-written frame cannot be cut off again either, nothing more is acknowledged."""
    disk = clean_log(lab)
    files = FaultyFileSystem(disk)
    with lab.open_store(files) as store:
        disk.capacity_bytes = sum(len(data) for data in disk.image().values() if data) + 100
        files.inject(Fault(operation="truncate", persistent=True))
        for _ in range(2):
            with pytest.raises(errors.StoreFailed):
                store.append("order/1", lab.event(1))
        disk.capacity_bytes = None
        with pytest.raises(errors.StoreFailed):
            store.append("order/1", lab.event(2))
    assert len(lab.recovered(disk.clone())) == KNOWN["append"]


def test_a_failed_sync_poisons_the_writer_until_it_is_reopened(lab: Any) -> None:
    """Settled 16: one failed fsync, and every later append raises StoreFailed, though the disk is well again."""
    disk = SimulatedDisk(loses_on_failed_sync=True)
    files = FaultyFileSystem(disk)
    with lab.open_store(files) as store:
        store.append("order/0", lab.event(1))
        files.inject(Fault(operation="sync"))
        with pytest.raises(errors.StoreFailed):
            store.append("order/0", lab.event(2))
        files.inject(None)
        for number in range(3):
            with pytest.raises(errors.StoreFailed):
                store.append("order/0", lab.event(3 + number))
        assert [item.data["number"] for item in lab.events_of(store)] == [1]
    with lab.open_store(files) as store:
        served = [item.data["number"] for item in lab.events_of(store)]
        assert served in ([1], [1, 2])
        store.append("order/0", lab.event(9))
        for state in crash_states(disk, first=len(disk.operations)):
            found = [item.data["number"] for item in lab.recovered(state.disk())]
            assert found == [*served, 9], state.describe()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT], ids=["ENOSPC", "EDQUOT"])
@pytest.mark.parametrize("size", [20, 3000], ids=["append", "rotation"])
def test_appends_go_on_by_themselves_when_there_is_room(lab: Any, number: int, size: int) -> None:
    """LH-16, settled 16: a full disk refuses with NoSpace and serves on; with room the same handle appends again."""
    disk = clean_log(lab)
    files = FaultyFileSystem(disk)
    with lab.open_store(files) as store:
        before = lab.events_of(store)
        files.inject(Fault(operation="write", error=number, persistent=True))
        for _ in range(3):
            with pytest.raises(errors.NoSpace):
                store.append("order/1", lab.event(1, size=size))
        assert lab.events_of(store) == before
        files.inject(None)
        store.append("order/1", lab.event(2, size=size))
        assert len(lab.events_of(store)) == len(before) + 1
    assert len(lab.recovered(disk.clone())) == len(before) + 1


def test_a_disk_that_fills_up_byte_by_byte_never_shows_half_a_frame(lab: Any) -> None:
    """LH-16, LH-19: with any number of free bytes an append is stored or refused, and with room it works again."""
    start = clean_log(lab)
    used = sum(len(data) for data in start.image().values() if data)
    for free in range(0, 6000, 37):
        disk = start.clone()
        try:
            store = lab.open_store(disk)
        except errors.TallyError:
            continue
        with store:
            disk.capacity_bytes = used + free
            links = append_some(lab, store, many=4, size=700)
            disk.capacity_bytes = None
            with contextlib.suppress(
                errors.StoreFailed
            ):  # the disk filled up at a point where only reopening can say what is there
                links += append_some(lab, store, many=1, size=700)
        found = lab.recovered(disk.clone())
        assert set(links) <= {event.link for event in found}, free
        assert len(found) >= 5 + len(links), free


@pytest.mark.parametrize("short", [1, 7, 100])
def test_short_writes_are_continued(lab: Any, short: int) -> None:
    """LH-16, settled 16: a disk that takes few bytes at a time stores every append whole."""
    disk = SimulatedDisk()
    files = FaultyFileSystem(disk, Fault(operation="write", short=short, persistent=True))
    with lab.open_store(files) as store:
        for number in range(3):
            store.append("order/0", lab.event(number, size=300))
    assert files.fired > 10
    assert [item.data["number"] for item in lab.recovered(disk)] == [0, 1, 2]


@pytest.mark.parametrize("number", [errno.EINTR, errno.EAGAIN], ids=["EINTR", "EAGAIN"])
def test_interrupted_writes_are_tried_again(lab: Any, number: int) -> None:
    """LH-16, settled 16: what is transient is retried, with a bound, and does not reach the caller."""
    files = FaultyFileSystem(SimulatedDisk())
    with lab.open_store(files) as store:
        files.inject(Fault(operation="write", error=number))
        store.append("order/0", lab.event(1))
        assert files.fired == 1
        files.inject(Fault(operation="write", error=number, persistent=True))
        with pytest.raises(errors.StoreFailed):
            store.append("order/0", lab.event(2))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EACCES, errno.ENOMEM])
def test_a_segment_that_cannot_be_opened_just_now_is_not_damage(lab: Any, number: int) -> None:
    """SAFE-02: too few files, rights or memory refuse the opening. Nothing goes on record, and later it opens."""
    disk = clean_log(lab)
    refused = 0
    for nth in range(1, 40):
        files = FaultyFileSystem(disk.clone())
        files.inject(Fault(operation="open", nth=nth, error=number))
        try:
            lab.open_store(files).close()
        except errors.TallyError:
            refused += 1
        files.inject(None)
        assert [item.data["number"] for item in lab.recovered(files)] == [0, 1, 2, 3, 4]
    assert refused
