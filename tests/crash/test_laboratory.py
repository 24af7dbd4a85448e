"""The laboratory itself: on a toy log with a known fault it must find the fault, and on a right one nothing."""

from __future__ import annotations

import itertools
import zlib

import pytest

from tallystick.store.filesystem import FileSystem, write_fully
from tallystick.testing.crash_states import CrashState, crash_states, replayed, variants
from tallystick.testing.simulated_disk import SimulatedDisk

RECORDS = [b"first", b"second" * 200, b"third"]


def checksum(payload: bytes, at: int, *, magic: bytes) -> bytes:
    """A checksum that also covers the record's place, so that a stale record is invalid; the naive form does not."""
    return zlib.crc32(payload, at if magic else 0).to_bytes(4, "big")


def append(files: FileSystem, payload: bytes, *, magic: bytes) -> None:
    """Append to a toy log: magic, length, checksum, payload; then sync."""
    file = files.open_write("toy/log")
    at = file.size()
    write_fully(file, at, magic + len(payload).to_bytes(4, "big") + checksum(payload, at, magic=magic) + payload)
    file.sync()
    file.close()


def recover(files: FileSystem, *, magic: bytes) -> list[bytes]:
    """Read the toy log up to the first record that is not whole."""
    if not files.exists("toy/log"):
        return []
    file = files.open_read("toy/log")
    data, at, found = file.read_at(0, file.size()), 0, []
    while data[at : at + len(magic)] == magic and len(data) >= at + len(magic) + 8:
        start = at + len(magic) + 8
        size = int.from_bytes(data[start - 8 : start - 4], "big")
        payload = data[start : start + size]
        if magic and not size:
            break
        if len(payload) < size or checksum(payload, at, magic=magic) != data[start - 4 : start]:
            break
        found.append(payload)
        at = start + size
    return found


def recorded(*, magic: bytes, syncs_dir: bool) -> tuple[SimulatedDisk, list[int]]:
    """A run of the toy log, and after how many operations each record was acknowledged."""
    disk, acknowledged = SimulatedDisk(), []
    disk.make_dir("toy")
    disk.create("toy/log").close()
    if syncs_dir:
        disk.sync_dir("toy")
    for payload in RECORDS:
        append(disk, payload, magic=magic)
        acknowledged.append(len(disk.operations))
    return disk, acknowledged


def wrong(state: CrashState, acknowledged: list[int], *, magic: bytes) -> bool:
    """Whether an acknowledged record is missing, or one is there that was never written."""
    found = recover(state.disk(), magic=magic)
    required = sum(1 for operations in acknowledged if operations <= state.operations)
    return found != RECORDS[: len(found)] or len(found) < required


def test_a_right_log_passes_every_state() -> None:
    """A log with a magic that syncs file and directory loses nothing and invents nothing."""
    disk, acknowledged = recorded(magic=b"TOY!", syncs_dir=True)
    states = list(crash_states(disk))
    assert len(states) > 100
    assert [state.describe() for state in states if wrong(state, acknowledged, magic=b"TOY!")] == []


def test_a_missing_directory_sync_is_found() -> None:
    """LH-19: a log whose directory was never synced loses its acknowledged records in some state."""
    disk, acknowledged = recorded(magic=b"TOY!", syncs_dir=False)
    bad = [state for state in crash_states(disk) if wrong(state, acknowledged, magic=b"TOY!")]
    assert bad
    assert all("lost" in state.describe() for state in bad)


def test_zeros_taken_for_records_are_found() -> None:
    """LH-08: zeros after the end pass for empty records if nothing in a header has to be non-zero."""
    disk, acknowledged = recorded(magic=b"", syncs_dir=True)
    assert any(wrong(state, acknowledged, magic=b"") for state in crash_states(disk))


def test_an_acknowledgement_before_the_sync_is_found() -> None:
    """LH-07: what was acknowledged before its sync is missing in some state."""
    disk, acknowledged = recorded(magic=b"TOY!", syncs_dir=True)
    early = [operations - 1 for operations in acknowledged]
    assert any(wrong(state, early, magic=b"TOY!") for state in crash_states(disk))


def test_a_printed_choice_gives_the_same_disk_again() -> None:
    """Every state can be replayed from the line that it prints."""
    disk, _ = recorded(magic=b"TOY!", syncs_dir=False)
    for state in itertools.islice(crash_states(disk), 0, None, 7):
        assert replayed(disk, str(state.choice)).image() == state.image()


def test_the_order_of_states_is_fixed() -> None:
    """Two enumerations of one history name the same states in the same order."""
    first, _ = recorded(magic=b"TOY!", syncs_dir=False)
    second, _ = recorded(magic=b"TOY!", syncs_dir=False)
    choices = [[str(state.choice) for state in crash_states(disk)] for disk in (first, second)]
    assert choices[0] == choices[1]


def dirty() -> SimulatedDisk:
    """A disk with 1000 durable bytes in a file and 2000 pending ones after them."""
    disk = SimulatedDisk.holding({"toy": None, "toy/log": b"d" * 1000})
    disk.open_write("toy/log").write_at(1000, b"p" * 2000)
    return disk


@pytest.mark.parametrize(
    ("what", "holds"),
    [
        ("absent", lambda data: data == b"d" * 1000),
        ("complete", lambda data: data == b"d" * 1000 + b"p" * 2000),
        ("its first byte alone", lambda data: data == b"d" * 1000 + b"p"),
        ("all but its last byte", lambda data: data == b"d" * 1000 + b"p" * 1999),
        ("cut at a sector", lambda data: data == b"d" * 1000 + b"p" * 24),
        ("zeros to the new size", lambda data: data == b"d" * 1000 + bytes(2000)),
        ("zeros to the block's end", lambda data: len(data) == 4096 and data.endswith(bytes(1000))),
        ("a sector of zeros inside", lambda data: len(data) == 3000 and data[1024:1536] == bytes(512)),
        ("stale bytes", lambda data: data == b"d" * 1000 + b"p" + b"d" * 1999),
    ],
)
def test_unsynced_bytes_may_be(what: str, holds: object) -> None:
    """The states of an unsynced write include each of the forms that a power loss leaves."""
    disk = dirty()
    found = [state.image()["toy/log"] for state in crash_states(disk)]
    assert any(holds(data) for data in found), what  # type: ignore[operator]
    assert all(data is not None and data[:1000] == b"d" * 1000 for data in found)


def test_synced_bytes_are_fixed() -> None:
    """After a sync every state holds exactly these bytes."""
    disk = dirty()
    disk.open_write("toy/log").sync()
    last = [state for state in crash_states(disk) if state.operations == len(disk.operations)]
    assert {state.image()["toy/log"] for state in last} == {b"d" * 1000 + b"p" * 2000}


def test_an_overwrite_in_place_is_old_new_or_torn() -> None:
    """An unsynced overwrite of two sectors leaves the old bytes, the new ones, or one sector of each."""
    disk = SimulatedDisk.holding({"mark": b"o" * 1024})
    disk.open_write("mark").write_at(0, b"n" * 1024)
    found = {state.image()["mark"] for state in crash_states(disk)}
    torn = (b"o" * 512 + b"n" * 512, b"n" * 512 + b"o" * 512)
    assert {b"o" * 1024, b"n" * 1024, *torn} <= found
    assert all(data is not None and len(data) in (1024, 4096) for data in found)


def test_a_mark_written_many_times_may_be_any_of_them() -> None:
    """Of many unsynced overwrites any one may be the one that arrived last."""
    disk = SimulatedDisk.holding({"mark": b"0"})
    for number in range(1, 9):
        disk.open_write("mark").write_at(0, str(number).encode())
    found = {state.image()["mark"] for state in crash_states(disk) if state.operations == len(disk.operations)}
    assert {str(number).encode() for number in range(9)} <= found


def test_unsynced_names_come_in_any_subset_and_a_rename_at_once() -> None:
    """Of two unsynced renames one, both or none may arrive; a file never has two names or half of one."""
    disk = SimulatedDisk.holding({"a": b"a", "b": b"b"})
    disk.rename("a", "a2")
    disk.rename("b", "b2")
    last = [state.image() for state in crash_states(disk) if state.operations == 2]
    assert {frozenset(image) for image in last} == {
        frozenset(names) for names in (("a", "b"), ("a2", "b"), ("a", "b2"), ("a2", "b2"))
    }


def test_a_killed_process_leaves_all_it_did_and_nothing_more_durable() -> None:
    """After a kill the next process sees every byte, and a power loss may still take what was unsynced."""
    disk = dirty()
    killed = [state for state in crash_states(disk) if state.choice.kind == "kill"][-1].disk()
    assert killed.image()["toy/log"] == b"d" * 1000 + b"p" * 2000
    assert b"d" * 1000 in {state.image()["toy/log"] for state in crash_states(killed)}


def test_variants_stay_within_their_bound() -> None:
    """However much is pending in a file, it has at most 64 variants, and they are all different."""
    disk = SimulatedDisk.holding({"log": b""})
    for number in range(200):
        disk.open_write("log").write_at(number * 700, bytes([number + 1]) * 700)
    found = variants(disk.state.inodes[1])
    assert len(found) == len(set(found)) == 64
