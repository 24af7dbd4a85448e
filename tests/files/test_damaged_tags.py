"""Damage of the files of tags: no query is answered wrongly, the log is not blocked, and the file is made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Selection, Store, errors, match
from tallystick.engines.files import tag_file
from tallystick.engines.files.engine import FilesLog
from tallystick.engines.files.segment_tags import SegmentTags
from tallystick.engines.files.tag_index import GrowingTags
from tallystick.store import reasons
from tallystick.store.query import Condition
from tallystick.store.verify import verify
from tallystick.testing.simulated_disk import SimulatedDisk

SMALL = 2500
QUERIES = (
    match(tags=["name:3"]),
    match(tags=["half:1", "third:2"]),
    match(types=["b.done"], tags=["half:0"]),
    match(types=["a.done"]),
    match(types=["once.done"]) | match(tags=["name:30"]),
    match(types=["no.such"]) | match(tags=["no:such"]),
)

Answers = list[tuple[list[int], list[int], list[int]]]


def fill(store: Store, begin: int, end: int) -> None:
    """One event a commit, each with a name of its own."""
    for number in range(begin, end):
        type_ = "once.done" if number == 5 else f"{'ab'[number % 2]}.done"
        tags = [f"name:{number}", f"half:{number % 2}", f"third:{number % 3}"]
        store.append(f"order/{number % 2}", NewEvent(type_, {"n": number}, tags=tags))


def answers(store: Store) -> Answers:
    """What the log answers to each query: all that matches, the first of it after some event, and what is read."""
    log, found = store.log, []
    assert isinstance(log, FilesLog)
    for query in QUERIES:
        every = log.matches(Condition(query), limit=1000)
        some = log.matches(Condition(query, 7), limit=1)
        found.append((every, some, [event.position for event in log.read(selection=Selection(query=query)).events]))
    return found


def open_on(disk: SimulatedDisk, **options: Any) -> Store:
    """The log on a simulated disk."""
    return tallystick.open("files:/tags-log", filesystem=disk, segment_bytes_max=SMALL, **options)


@pytest.fixture(scope="module")
def image() -> dict[str, bytes | None]:
    """A closed log of two segments."""
    disk = SimulatedDisk()
    with open_on(disk, compress_bytes_min=1 << 40) as store:
        fill(store, 0, 14)
        assert store.report().facts["segments"] == 2
    return disk.image()


def paths_of(image: dict[str, bytes | None]) -> list[str]:
    """The files of tags."""
    return sorted(path for path in image if path.endswith(".tags"))


def changed(data: bytes) -> Iterator[bytes]:
    """The bytes with one bit changed, another one in each byte; cut off at some places; and emptied."""
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        yield bytes(flipped)
    yield from (data[:size] for size in range(0, len(data), 50))


@pytest.mark.parametrize("number", [0, 1], ids=["sealed", "current"])
@pytest.mark.parametrize("readonly", [True, False], ids=["reader", "writer"])
def test_no_change_of_a_file_of_tags_changes_an_answer(
    image: dict[str, bytes | None], number: int, readonly: bool
) -> None:
    """TAG-02: whatever bit is flipped, and wherever the file ends."""
    path = paths_of(image)[number]
    with open_on(SimulatedDisk.holding(image), readonly=True) as store:
        expected = answers(store)
    assert [every for every, _, _ in expected][-1] == []
    data = image[path] or b""
    for count, other in enumerate(changed(data)):
        if not readonly and count % 7:  # a writer costs more
            continue
        with open_on(SimulatedDisk.holding(image | {path: other}), readonly=readonly) as store:
            assert answers(store) == expected, count
            assert not store.holes()
            assert not store.log.damage.known()


def test_a_file_of_another_format_is_made_again(
    image: dict[str, bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TAG-02: a writer makes it again and the report says so; a reader reads the events."""
    with open_on(SimulatedDisk.holding(image), readonly=True) as store:
        expected = answers(store)
    monkeypatch.setattr(tag_file, "FORMAT", tag_file.FORMAT + 1)
    disk = SimulatedDisk.holding(image)
    for readonly in (True, False):
        with open_on(disk, readonly=readonly, compress_bytes_min=1 << 40) as store:
            assert answers(store) == expected
            assert store.report().facts["tags_rebuilt"] == 1  # the current segment is read on, as after a crash
    sealed = paths_of(image)[0]
    assert disk.image()[sealed] != image[sealed]


@pytest.mark.parametrize("act", ["continued", "sealed"])
def test_a_file_of_another_continuation_is_not_used(opened: Any, directory: Path, tmp_path: Path, act: str) -> None:
    """TAG-02: a log that was restored from a copy and went on otherwise has the same ids of segments."""
    with opened(compress_bytes_min=1 << 40) as store:
        fill(store, 0, 10)
    copy = Path(shutil.copytree(directory, tmp_path / "copy"))
    shutil.rmtree(copy / "index")
    with opened(compress_bytes_min=1 << 40) as store:
        fill(store, 20, 60)
    with tallystick.open(f"files:{copy}", compress_bytes_min=1 << 40) as store:
        for number in range(100):
            store.append("order/other", NewEvent("other.done", {"n": number}, tags=[f"name:{number}"]))
        if act == "sealed":
            store.log._seal()  # type: ignore[attr-defined]
    for path in (copy / "index").glob("*.tags"):
        path.unlink()
    names = [path.with_suffix(".tags").name for path in (copy / "index").glob("*.idx")]
    for name in names:
        shutil.copy(directory / "index/current.tags", copy / "index" / name)
    with tallystick.open(f"files:{copy}", readonly=True) as store:
        assert store.log.matches(Condition(match(types=["other.done"], tags=["name:30"])), limit=9) == [41]
        assert store.log.matches(Condition(match(types=["a.done", "b.done"], tags=["name:30"])), limit=9) == []
        assert verify(store.log).ok


def _extra(tags: GrowingTags) -> None:
    tags._note_tags("a.done", None, ["name:never"], 3, 132)


def _missing(tags: GrowingTags) -> None:
    del tags._places["name:3" + tags._kinds["b.done"][None]]


def _moved(tags: GrowingTags) -> None:
    tags._places["name:3" + tags._kinds["b.done"][None]] = 4 << 32 | 133


def _shorter(tags: GrowingTags) -> None:
    known = tags._places["half:1" + tags._kinds["b.done"][None]]
    assert isinstance(known, bytearray)
    del known[-12:]


def _last(tags: GrowingTags) -> None:
    tags._types["a.done"][1] -= 2


def _no_type(tags: GrowingTags) -> None:
    del tags._types["once.done"]


FORGERIES: dict[str, tuple[Callable[[GrowingTags], None], str]] = {
    "an extra posting": (_extra, "'name:never' of type 'a.done' has an event that is not there"),
    "a missing posting": (_missing, "'name:3' of type 'b.done' lacks its event"),
    "a changed posting": (_moved, "'name:3' of type 'b.done' has its event in another frame"),
    "a shorter list": (_shorter, "'half:1' of type 'b.done' lacks its event"),
    "a wrong last position": (_last, "where events of type 'a.done' are"),
    "a missing type": (_no_type, "where events of type 'once.done' are"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_verification_finds_what_a_file_says_wrongly(
    opened: Any, directory: Path, forgery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TAG-02: a file whose hashes are right and whose content is not. A writer that verifies makes it again."""
    forge, sentence = FORGERIES[forgery]
    encoded = SegmentTags._encoded

    def forged(self: SegmentTags) -> bytes:
        forge(self._whole())
        return encoded(self)

    with opened() as store:
        fill(store, 0, 14)
        monkeypatch.setattr(SegmentTags, "_encoded", forged)
    monkeypatch.undo()
    for readonly in (True, False):
        store = opened(readonly=readonly)
        (problem,) = verify(store.log).problems
        assert (problem.what, sentence in problem.reason) == ("tag_file", True), problem
        assert "index/current.tags" in problem.reason
        assert problem.what in reasons.ADVICE
        assert not store.log.damage.known()
        assert store.log.matches(Condition(match(types=["b.done"], tags=["name:3", "half:1"])), limit=9) == [4]
        assert store.log.matches(Condition(match(tags=["name:never"])), limit=9) == []
        store.close()
    assert verify(opened().log).ok


def test_a_damaged_file_is_found_by_verification_and_made_again(opened: Any, directory: Path, flip: Any) -> None:
    """TAG-02: it gives no wrong answer, so it is not reported as a problem but counted."""
    with opened(segment_bytes_max=SMALL, compress_bytes_min=1 << 40) as store:
        fill(store, 0, 60)
    sealed = sorted((directory / "index").glob("2*.tags"))
    for path in sealed:
        flip(path, path.stat().st_size - 20)
    with opened(compress_bytes_min=1 << 40) as store:
        assert verify(store.log).ok
        with pytest.raises(errors.ConditionFailed):
            store.append("order/1", NewEvent("a.done", {}), unless=match(tags=["name:1"]))
        answers(store)
        assert store.report().facts["tags_rebuilt"] >= 1


def test_a_damaged_segment_refuses_what_cannot_be_decided(opened: Any, directory: Path, flip: Any) -> None:
    """TAG-02: with its file of tags a condition is still judged; without it, it is refused by the hole."""
    with opened(segment_bytes_max=SMALL, compress_bytes_min=1 << 40) as store:
        fill(store, 0, 60)
    first = sorted(directory.glob("2*.log"))[0]
    flip(first, first.stat().st_size // 2)
    (directory / "index" / first.name).with_suffix(".tags").unlink()
    store = opened(readonly=True)
    with pytest.raises(errors.Damaged):
        store.log.matches(Condition(match(tags=["name:59"])), limit=9)
    with pytest.raises(errors.Damaged):
        store.consult(match(tags=["name:59"]))
    assert store.holes()
    assert [event.position for event in store.consult(match(tags=["name:59"]), after=55).events] == [60]
