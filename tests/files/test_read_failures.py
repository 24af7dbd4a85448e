"""A read that fails for a reason outside the log: a typed error, and the writer continues."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from tallystick import errors
from tallystick.engines.files import handles
from tallystick.testing.builders import events
from tallystick.testing.faults import Fault

READS = {
    "head": lambda store: store.head(),
    "read": lambda store: store.read(),
    "read_stream": lambda store: store.read_stream("order/1"),
    "find": lambda store: store.find(b"x" * 16),
    "stream_head": lambda store: store.stream_head("order/1"),
    "streams": lambda store: store.streams(),
}


@pytest.fixture
def filled(opened: Any, hooked: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A writer with three sealed segments, which keeps none of their files open."""
    monkeypatch.setattr(handles, "OPEN_FILES_MAX", 0)
    store = opened(filesystem=hooked, segment_bytes_max=256)
    for number in range(4):
        store.append("order/1", events(2, first=2 * number))
    return store


def goes_on(store: Any, last: int) -> None:
    """The writer takes another append, and everything is read."""
    assert store.append("order/1", events(1)).position == store.head() == last
    assert [item.position for item in store.events()] == list(range(1, last + 1))
    assert store.holes() == []


@pytest.mark.parametrize("question", READS.values(), ids=READS)
def test_too_many_open_files_is_a_typed_error_of_the_reader(
    filled: Any, opened: Any, hooked: Any, question: Any
) -> None:
    """LH-16: a process without free descriptors gets an error, and reads again when it has some."""
    reader = opened(readonly=True, filesystem=hooked)
    assert reader.head() == 8
    hooked.inject(Fault(operation="open", error=errno.EMFILE, persistent=True))
    with pytest.raises(errors.ReadFailed, match="Too many open files"):
        question(reader)
    hooked.inject(None)
    question(reader)
    assert reader.holes() == []
    goes_on(filled, 9)


@pytest.mark.parametrize("question", ["read", "read_stream"])
def test_rot_in_the_header_of_a_sealed_segment_is_damage(
    filled: Any, directory: Path, flip: Any, question: str
) -> None:
    """LH-08: a file that is opened again and does not say which segment it is counts as damage of its positions."""
    path = min(directory.glob("2*.log"))
    flip(path, 40)
    with pytest.raises(errors.Damaged, match=path.name) as caught:
        READS[question](filled)
    assert (caught.value.values["first"], caught.value.values["last"]) == (1, 2)
    flip(path, 40)
    goes_on(filled, 9)


def test_a_segment_that_is_moved_away_is_a_typed_error_and_does_not_detach_the_writer(
    filled: Any, directory: Path, tmp_path: Path
) -> None:
    """LH-16: the read fails, and when the segment is back reads and appends work again."""
    path = min(directory.glob("2*.log"))
    path.rename(tmp_path / path.name)
    with pytest.raises(errors.ReadFailed):
        filled.read()
    assert filled.head() == 8
    (tmp_path / path.name).rename(path)
    goes_on(filled, 9)


def test_the_name_of_a_segment_that_is_moved_away_is_not_taken(filled: Any, directory: Path, tmp_path: Path) -> None:
    """LH-06, LH-19: a segment that is put back must not meet another one under its name."""
    path = min(directory.glob("2*.log"))
    path.rename(tmp_path / path.name)
    assert filled.append("order/1", events(1)).position == 9  # seals
    assert not path.exists()
    (tmp_path / path.name).rename(path)
    goes_on(filled, 10)


def test_a_segment_that_another_one_took_the_place_of_is_a_typed_error(filled: Any, directory: Path) -> None:
    """LH-06: segments are opened by identity: two that changed names are not read as each other."""
    one, two, *_ = sorted(directory.glob("2*.log"))
    spare = directory.with_name("spare")

    def exchange() -> None:
        one.rename(spare)
        two.rename(one)
        spare.rename(two)

    exchange()
    with pytest.raises(errors.ReadFailed, match="another segment"):
        filled.read()
    exchange()
    goes_on(filled, 9)
