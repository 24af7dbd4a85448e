"""A reader of a log whose synced mark is missing, empty or damaged: it sees what recovery would, or refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import errors
from tallystick.store.verify import verify
from tallystick.testing.builders import events

pytestmark = pytest.mark.security

EVENTS = 20


def both_slots_bad(data: bytes) -> bytes:
    """A mark of which neither slot checks out."""
    return bytes([data[0] ^ 1]) + data[1:512] + bytes([data[512] ^ 1]) + data[513:]


def newest_slot_bad(data: bytes) -> bytes:
    """A mark whose other slot is right, and one append older."""
    at = max((0, 512), key=lambda begin: data[begin + 4 : begin + 12])
    return data[: at + 30] + bytes([data[at + 30] ^ 1]) + data[at + 31 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda data: None,
    "emptied": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "both slots bad": both_slots_bad,
    "newest slot bad": newest_slot_bad,
    "of another segment": lambda data: data[:12] + b"another segment!" + data[28:],
}


def damaged(directory: Path, damage: Callable[[bytes], bytes | None]) -> None:
    """Damage the mark of a log."""
    found = damage((directory / "synced").read_bytes())
    (directory / "synced").unlink()
    if found is not None:
        (directory / "synced").write_bytes(found)


@pytest.fixture
def killed(opened: Any, directory: Path) -> Path:
    """A log as a killed writer leaves it: 20 acknowledged events, no index of the newest segment."""
    writer = opened()
    for number in range(EVENTS):
        writer.append("order/1", events(1, first=number))
    return Path(shutil.copytree(directory, directory.with_name("killed")))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_reader_sees_what_recovery_would(killed: Path, damage: Callable[[bytes], bytes | None]) -> None:
    """SAFE-04: a mark that is gone or bad hides no acknowledged event, and the report says that it is."""
    damaged(killed, damage)
    with tallystick.open(f"files:{killed}", readonly=True) as reader:
        assert [item.position for item in reader.events()] == list(range(1, EVENTS + 1))
        assert (reader.head(), verify(reader.log).events) == (EVENTS, EVENTS)
        assert any("synced" in line for line in reader.report().recovered)
    with tallystick.open(f"files:{killed}") as writer:
        assert writer.append("order/1", events(1)).position == EVENTS + 1
    with tallystick.open(f"files:{killed}", readonly=True) as reader:
        assert (reader.head(), reader.report().recovered) == (EVENTS + 1, ())


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_reader_that_is_open_goes_on(killed: Path, damage: Callable[[bytes], bytes | None]) -> None:
    """SAFE-04: a reader that follows is not stopped in silence by what happens to the mark."""
    with tallystick.open(f"files:{killed}", readonly=True) as reader:
        assert reader.head() == EVENTS
        with tallystick.open(f"files:{killed}", segment_bytes_max=4000) as writer:
            for number in range(30):  # seals on the way
                writer.append("order/1", events(1, first=number))
            damaged(killed, damage)
            assert reader.head() == EVENTS + 30
            assert [item.position for item in reader.events()] == list(range(1, EVENTS + 31))


def test_a_torn_tail_behind_a_missing_mark_is_not_shown(killed: Path) -> None:
    """LH-08: without its mark too, bytes that are no whole frame are no damage for a reader, and no event."""
    (killed / "synced").unlink()
    with (killed / "current.log").open("ab") as log:
        log.write(b"torn")
    with tallystick.open(f"files:{killed}", readonly=True) as reader:
        assert reader.head() == EVENTS
        assert verify(reader.log).ok


def test_a_damaged_frame_behind_a_missing_mark_is_a_hole(killed: Path) -> None:
    """SAFE-04: a reader names what is damaged although no mark says how far the log reaches."""
    (killed / "synced").unlink()
    data = bytearray((killed / "current.log").read_bytes())
    data[len(data) // 2] ^= 1
    (killed / "current.log").write_bytes(data)
    with tallystick.open(f"files:{killed}", readonly=True) as reader:
        with pytest.raises(errors.Damaged):
            list(reader.events())
        assert not verify(reader.log).ok
