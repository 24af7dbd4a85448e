"""A reader sees only what is synced, at every step of an append and of a rotation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import Store, errors, select
from tallystick.testing.builders import event, events


@pytest.fixture
def url(directory: Path) -> str:
    """The log of this test."""
    return f"files:{directory}"


def test_what_is_written_but_not_synced_is_not_shown(url: str, hooked: Any) -> None:
    """LH-07: while the frame is written but not synced, old and new readers see the log before it."""
    seen: list[tuple[int, int, int]] = []
    with tallystick.open(url, filesystem=hooked) as writer, tallystick.open(url, readonly=True) as old:

        def look(operation: str, path: str) -> None:
            if operation == "sync" and path.endswith("/current.log"):
                with tallystick.open(url, readonly=True) as new:
                    seen.append((old.head(), new.head(), len(list(new.events()))))
                    assert new.stream_head("order/1") == old.stream_head("order/1")
                    assert len(new.read_stream("order/1")) == len(old.read_stream("order/1")) == new.head()

        hooked.before = look
        for number in (1, 2, 3):
            writer.append("order/1", event(number))
            assert old.head() == number
    assert seen == [(0, 0, 0), (1, 1, 1), (2, 2, 2)]


def test_every_step_of_a_rotation_shows_the_same_log(url: str, hooked: Any, large: Any) -> None:
    """LH-06: before each operation of an append that rotates, old and new readers see the whole log before it."""
    steps: list[str] = []
    with tallystick.open(url, filesystem=hooked, segment_bytes_max=4096) as writer:
        writer.append("order/1", large)
        writer.append("order/1", large)
        with tallystick.open(url, readonly=True) as old:

            def look(operation: str, path: str) -> None:
                steps.append(operation)
                with tallystick.open(url, readonly=True) as new:
                    for reader in (old, new):
                        assert whole(reader) == [1, 2], (operation, path)

            hooked.before = look
            writer.append("order/1", large)
            hooked.before = None
            assert whole(old) == [1, 2, 3]
    assert {"rename", "sync_dir", "create", "sync"} <= set(steps)


def whole(reader: Store) -> list[int]:
    """The positions that a reader sees. All its methods must agree."""
    found = [item.position for item in reader.events()]
    assert reader.holes() == []
    assert [item.position for item in reader.read_stream("order/1")] == found
    head = reader.stream_head("order/1")
    assert (reader.head(), head.seq if head else 0) == (len(found), len(found))
    return found


@pytest.mark.parametrize("rotated", [0, 1, 3])
def test_a_rotation_while_a_reader_opens_costs_it_nothing(url: str, hooked: Any, large: Any, rotated: int) -> None:
    """LH-06: between listing the directory and opening current.log, the name may move to another segment."""
    with tallystick.open(url, segment_bytes_max=4096) as writer:
        for _ in range(rotated + 1):
            writer.append("order/1", large)
        hooked.after = once(lambda: writer.append("order/1", large))
        with tallystick.open(url, readonly=True, filesystem=hooked) as reader:
            assert whole(reader) == list(range(1, rotated + 3))


@pytest.mark.parametrize("rotated", [0, 1, 3])
def test_a_rotation_while_a_reader_looks_again_costs_it_nothing(
    url: str, hooked: Any, large: Any, rotated: int
) -> None:
    """LH-06: the same if another rotation follows after the reader noticed one and before it looks."""
    with tallystick.open(url, segment_bytes_max=4096) as writer:
        for _ in range(rotated + 1):
            writer.append("order/1", large)
        with tallystick.open(url, readonly=True, filesystem=hooked) as reader:
            writer.append("order/1", large)
            hooked.after = once(lambda: writer.append("order/1", large))
            assert whole(reader) == list(range(1, rotated + 4))


def test_a_mark_that_was_read_before_a_rotation_is_read_again(url: str, hooked: Any, large: Any) -> None:
    """LH-07: a reader with the mark of the previous segment does not show what the writer has not synced."""
    written, go_on = threading.Event(), threading.Event()
    with tallystick.open(url, filesystem=hooked, segment_bytes_max=4096) as writer:
        writer.append("order/1", large)
        thread = threading.Thread(target=writer.append, args=("order/1", large))

        def pause(operation: str, path: str) -> object:
            if operation == "sync" and path.endswith("/current.log"):
                written.set()
                return go_on.wait(60) and False
            return True

        def rotate(operation: str, path: str) -> object:
            if operation == "list" and f"files:{path}" == url:  # the mark was read, the segments not yet
                thread.start()
                return written.wait(60) and False
            return True

        hooked.before = pause
        reading = type(hooked)()
        reading.before = rotate
        try:
            with tallystick.open(url, readonly=True, filesystem=reading) as reader:
                assert written.is_set()
                assert whole(reader) == [1]
                go_on.set()
                thread.join(60)
                assert whole(reader) == [1, 2]
        finally:
            go_on.set()
            thread.join(60)


def test_a_reader_may_find_current_log_gone(url: str, hooked: Any, large: Any) -> None:
    """LH-06: a rotation has a moment without current.log; a reader that has just listed it looks again."""
    renamed, go_on = threading.Event(), threading.Event()
    with tallystick.open(url, filesystem=hooked, segment_bytes_max=4096) as writer:
        writer.append("order/1", large)
        thread = threading.Thread(target=writer.append, args=("order/1", large))

        def pause(operation: str, path: str) -> object:
            if operation == "rename" and path.endswith("_001.log"):
                renamed.set()
                return go_on.wait(60) and False
            return True

        def seal(operation: str, path: str) -> object:
            if operation == "list":
                thread.start()
                return renamed.wait(60) and False
            return True

        hooked.after = pause
        reading = type(hooked)()
        reading.after = seal
        try:
            with tallystick.open(url, readonly=True, filesystem=reading) as reader:
                assert renamed.is_set()
                assert whole(reader) == [1]
                go_on.set()
                thread.join(60)
                assert whole(reader) == [1, 2]
        finally:
            go_on.set()
            thread.join(60)


def once(act: Callable[[], object]) -> Callable[[str, str], object]:
    """A hook that acts once, after the first listing of the directory."""

    def hook(operation: str, path: str) -> object:
        if operation == "list":
            act()
            return False
        return True

    return hook


def test_a_reader_opened_before_the_first_append_sees_it(url: str) -> None:
    """EVT-06: an empty log can be followed from its beginning."""
    with tallystick.open(url) as writer, tallystick.open(url, readonly=True) as reader:
        assert (reader.head(), list(reader.events()), reader.streams()) == (0, [], [])
        assert reader.wait(0, timeout=0) == 0
        writer.append("order/1", events(3))
        assert reader.wait(0, timeout=60) == 3
        assert whole(reader) == [1, 2, 3]


def test_waiting_and_reading_by_turns_shows_all_that_fits(url: str) -> None:
    """EVT-06: as `tally tail --follow` does: wait for the head, read up to it with a filter, continue after it."""
    only = select(type="order.paid")
    with tallystick.open(url, segment_bytes_max=4096) as writer, tallystick.open(url, readonly=True) as reader:
        after, shown = 0, []
        for number in range(1, 40):
            kind = "order.paid" if number % 4 == 0 else "order.placed"
            writer.append("order/1", events(number, type=kind))
            head = reader.wait(after, timeout=60)
            while after < head:
                page = reader.read(after=after, until=head, selection=only, limit=10)
                shown += [item.position for item in page.events]
                assert after < page.through <= head
                after = page.through
        assert shown == [item.position for item in writer.events(selection=only)]


def test_waiting_on_a_closed_store_is_refused(url: str) -> None:
    """EVT-06: a closed reader refuses every call."""
    with tallystick.open(url) as writer:
        writer.append("order/1", event())
        reader = tallystick.open(url, readonly=True)
        reader.close()
        for ask in (reader.head, lambda: reader.wait(5, timeout=0), reader.read, lambda: reader.stream_head("order/1")):
            with pytest.raises(errors.StoreClosed):
                ask()
