"""`tallystick.moving` as a program uses it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import tallystick
from tallystick import Store, errors, moving
from tallystick.store.page import Hole
from tallystick.store.selection import select
from tallystick.testing.builders import events

LINE = b'{"stream":"order/1","type":"a","payload":{}}\n'


@pytest.fixture
def store() -> Store:
    """A store with seven events in two streams."""
    found = tallystick.open("memory:")
    found.append("order/1", events(5))
    found.append("note/1", events(2))
    return found


def test_an_export_is_one_line_per_item(store: Store) -> None:
    """Each item is one line with its end, so a file or an import can take them as they come."""
    lines = list(moving.export(store))
    assert len(lines) == 7
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    assert len(list(moving.export(store, whole=True))) == 9


def test_a_part_is_chosen_like_in_a_read(store: Store) -> None:
    """`after`, `until` and a selection choose the lines, and progress reports positions."""
    reached: list[int] = []
    lines = list(moving.export(store, after=1, until=6, selection=select(kind="order"), progress=reached.append))
    assert len(lines) == 4
    assert reached[-1] == 6


def test_a_part_of_a_log_cannot_be_whole(store: Store) -> None:
    """The mistake is refused at the call, before anything is read."""
    with pytest.raises(errors.InvalidValue, match="whole"):
        moving.export(store, whole=True, after=3)


def test_damage_is_refused_or_skipped(tmp_path: Path) -> None:
    """Without `skipped` it is an error; with it each range is reported once and left out."""
    with tallystick.open(f"files:{tmp_path}/log") as store:
        for number in range(4):
            store.append("order/1", events(1, first=number))
    path = tmp_path / "log" / "current.log"
    data = bytearray(path.read_bytes())
    data[data.index(b'{"n":2}') + 5] ^= 1
    path.write_bytes(data)
    with tallystick.open(f"files:{tmp_path}/log", readonly=True) as damaged:
        with pytest.raises(errors.Damaged):
            list(moving.export(damaged))
        found: list[Hole] = []
        assert len(list(moving.export(damaged, skipped=found.append))) == 3
        assert [(hole.first, hole.last) for hole in found] == [(3, 3)]


def test_a_file_is_read_line_by_line(store: Store) -> None:
    """A line that is too long is refused when that is certain, not when all of it is in memory."""
    file = io.BytesIO(b"".join(moving.export(store)) + b"x" * (64 << 20))
    with tallystick.open("memory:") as target, pytest.raises(moving.ImportRefused, match="line 8"):
        moving.import_lines(target, file)
    assert file.tell() < 8 << 20


def test_a_target_is_opened_when_the_first_line_is_sound() -> None:
    """A function that opens the store is not called for lines that are bad from the start, and once for others."""
    opened: list[str | None] = []

    def target(profile: str | None) -> Store:
        opened.append(profile)
        return tallystick.open("memory:")

    with pytest.raises(moving.ImportRefused):
        moving.import_lines(target, [b"{oops\n"])
    assert opened == []
    assert moving.import_lines(target, [LINE, LINE], batch=1).imported == 2
    assert opened == [None]


def test_the_target_of_a_whole_export_learns_its_profile() -> None:
    """The new store gets the profile of the exported one."""
    opened: list[str | None] = []

    def target(profile: str | None) -> Store:
        opened.append(profile)
        return tallystick.open("memory:", profile=profile)

    with tallystick.open("memory:", profile="run") as source:
        moving.copy(source, target)
    assert opened == ["run"]


def test_progress_says_how_far_it_came(store: Store) -> None:
    """It is reported after each batch; the last report is the result."""
    lines = list(moving.export(store))
    seen: list[tuple[int, int, int]] = []
    with tallystick.open("memory:") as target:
        done = moving.import_lines(
            target, lines, batch=3, progress=lambda now: seen.append((now.imported, now.lines, now.bytes))
        )
    assert [item[:2] for item in seen] == [(3, 3), (6, 6), (7, 7)]
    assert seen[-1] == (done.imported, done.lines, sum(map(len, lines)))


def test_a_copy_is_continued(store: Store) -> None:
    """A second copy adds what was appended since."""
    with tallystick.open("memory:") as target:
        assert moving.copy(store, target).imported == 7
        store.append("order/1", events(1))
        done = moving.copy(store, target)
        assert (done.imported, done.skipped, target.head()) == (1, 7, 8)


def test_an_interrupted_import_keeps_its_batches(store: Store) -> None:
    """What goes wrong in the source is not taken for a bad line, and whole batches are stored."""

    def failing() -> Iterator[bytes]:
        yield from list(moving.export(store))[:4]
        raise OSError("the source is gone")

    with tallystick.open("memory:") as target:
        with pytest.raises(OSError, match="gone"):
            moving.import_lines(target, failing(), batch=2)
        assert target.head() == 4
