"""What was checked of a frame is not hashed again while the frame has the same bytes, and only then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import ANY, Store, errors
from tallystick.engines.files import checked_frames
from tallystick.event import chain
from tallystick.store import checked
from tallystick.testing.builders import events
from tallystick.testing.tamper import tamper

pytestmark = pytest.mark.security

FRAMES, EACH = 20, 10  # more frames than are kept decoded
EVENTS = FRAMES * EACH
LONG, OTHER = "order/long", "order/other"


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """How many payloads and links a read hashes."""
    counted: list[int] = []

    def counts(module: Any, name: str) -> None:
        original = getattr(module, name)

        def counting(items: Any, *more: Any) -> Any:
            counted.append(len(items))
            return original(items, *more)

        monkeypatch.setattr(module, name, counting)

    counts(checked, "_payloads")
    counts(chain, "broken")

    def judged_by(read: Callable[[], object]) -> int:
        counted.clear()
        read()
        return sum(counted)

    return judged_by


@pytest.fixture
def store(opened: Any) -> Store:
    """Two streams, half of each frame is of each."""
    found: Store = opened()
    for number in range(FRAMES):
        both = events(EACH, first=number * EACH)
        found.append_all([(LONG, both[::2], ANY), (OTHER, both[1::2], ANY)])
    return found


def whole(store: Store) -> int:
    return sum(1 for _ in store.events())


def test_nothing_is_hashed_twice(store: Store, judged: Any) -> None:
    """SAFE-01: the second reading of the log, and of a stream, compares only hashes of frames, wherever it begins."""
    for read, cost in (
        (lambda: whole(store), EVENTS),
        (lambda: store.read_stream(LONG), EVENTS),
        (lambda: store.read_stream(OTHER, limit=EVENTS), EVENTS),
    ):
        assert (judged(read), judged(read)) == (cost, 0)
    assert judged(lambda: store.read_stream(LONG, after=7, until=31)) == 0
    assert judged(lambda: store.read(after=7, until=31)) == 0


def test_a_part_of_a_frame_says_nothing_about_the_rest(store: Store, judged: Any) -> None:
    """SAFE-01: only frames that were looked at as a whole are taken for sound."""
    store.read(after=0, limit=EACH - 1)
    store.read_stream(LONG, limit=EACH // 2 - 1)
    store.read_stream(OTHER, after=1, limit=EACH // 2 - 1)
    assert judged(lambda: store.read(after=0, limit=EACH)) == EACH
    assert judged(lambda: store.read_stream(LONG, limit=EACH // 2)) == EACH
    assert judged(lambda: store.read_stream(OTHER, limit=EACH // 2)) == EACH


def test_a_sound_frame_behind_one_that_was_changed_is_refused(store: Store, directory: Path) -> None:
    """SAFE-01: what a part of a stream was found to follow is still what is before it."""
    store.read_stream(LONG)
    last = EACH // 2
    tamper(f"files:{directory}", LONG, last, lambda event: msgspec.structs.replace(event, link=b"x" * 32))
    store.log._view.reader.forget_all()  # type: ignore[attr-defined]
    with pytest.raises(errors.Damaged, match=f"{LONG} seq {last + 1}: "):
        store.read_stream(LONG, after=last, limit=3)
    assert len(store.read_stream(LONG, after=last + 1, limit=3)) == 3


def test_a_frame_that_was_refused_stays_refused(store: Store, directory: Path) -> None:
    """SAFE-01: a frame that did not hold is never taken for sound, however often it is read."""
    tamper(f"files:{directory}", LONG, 2, lambda event: msgspec.structs.replace(event, checksum=b"x" * 32))
    for _ in range(3):
        assert len(store.read(over_holes=True).events) == EVENTS - 1
        with pytest.raises(errors.Damaged):
            store.read_stream(LONG)
        with pytest.raises(errors.Damaged):
            store.read(after=1)


def test_what_is_remembered_is_bounded(store: Store, judged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """SAFE-01: a log of many frames does not fill the memory, and is checked again where it was forgotten."""
    monkeypatch.setattr(checked_frames, "FRAMES_MAX", 4)
    for _ in range(2):
        assert judged(lambda: whole(store)) > 0
        assert judged(lambda: store.read_stream(LONG)) > 0
        remembered = store.log._checked  # type: ignore[attr-defined]
        assert max(len(remembered._payloads), len(remembered._streams)) <= 4
