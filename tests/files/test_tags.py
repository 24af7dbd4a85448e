"""The tags of a file log: every way to hold them gives the answers that follow from the events."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, errors, match, moving
from tallystick.engines.files import reader, segment_tags, tag_file
from tallystick.store.query import Condition
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tests.files.tags_model import TagsModel

SMALL = 20_000
COMMITS = 300


@pytest.fixture
def model() -> TagsModel:
    """What this test writes."""
    return TagsModel(19)


def tags_of(directory: Path) -> list[Path]:
    """The files of tags of a log."""
    return sorted((directory / "index").glob("*.tags"))


def sealed_tags(directory: Path) -> list[Path]:
    """Those of sealed segments."""
    return [path for path in tags_of(directory) if path.name != "current.tags"]


@pytest.mark.parametrize("blocks", ["large", "small"])
def test_every_way_to_hold_tags_gives_the_same_answers(
    opened: Any, directory: Path, model: TagsModel, blocks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TAG-01, TAG-02: in memory, sealed, after reopening, continued, compressed, without files, and for a reader."""
    if blocks == "small":
        monkeypatch.setattr(tag_file, "BLOCK_BYTES", 300)
        monkeypatch.setattr(tag_file, "PLACES_MAX", 5)
    with opened() as store:
        model.fill(store, COMMITS)
        model.check(store)
    assert [path.name for path in tags_of(directory)] == ["current.tags"]
    with opened() as store:
        model.check(store)
        model.fill(store, 20)
        model.check(store)
    with opened(segment_bytes_max=SMALL, compress_bytes_min=1 << 40) as store:
        model.fill(store, COMMITS)
        model.check(store)
        assert store.report().facts["segments"] > 3
    with opened(compress_bytes_min=0) as store:
        store.log._compressor.wait()
        model.check(store)
        assert store.report().facts["compressed_segments"] > 2
        assert store.report().facts["tags_rebuilt"] == 0
        assert verify(store.log).ok
    model.check(opened(readonly=True))
    shutil.rmtree(directory / "index")
    model.check(opened(readonly=True))
    assert not (directory / "index").exists()
    with opened() as store:
        model.check(store)
    assert len(sealed_tags(directory)) == len(list(directory.glob("2*.log")))
    with opened() as store:
        model.check(store)
        assert store.report().facts["tags_rebuilt"] == 0


def test_missing_files_of_sealed_segments_are_made_by_the_first_query(
    opened: Any, directory: Path, model: TagsModel
) -> None:
    """TAG-02: opening does not wait for them; the report counts them; the next process finds them."""
    with opened(segment_bytes_max=SMALL, compress_bytes_min=1 << 40) as store:
        model.fill(store, COMMITS)
    for path in sealed_tags(directory):
        path.unlink()
    with opened(compress_bytes_min=1 << 40) as store:
        assert not sealed_tags(directory)
        store.log.matches(Condition(match(tags=["no:such"])), limit=1)
        assert store.report().facts["tags_rebuilt"] == len(sealed_tags(directory)) > 1
        assert verify(store.log).ok
    with opened(compress_bytes_min=1 << 40) as store:
        model.check(store)
        assert store.report().facts["tags_rebuilt"] == 0


def test_only_segments_past_the_marker_are_asked(
    opened: Any, model: TagsModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TAG-02: a condition costs what was written since."""
    asked: list[str] = []
    ask = segment_tags.SegmentTags.ask

    def noted(self: Any, question: Any) -> Any:
        asked.append(self._item.name)
        return ask(self, question)

    store = opened(segment_bytes_max=SMALL)
    model.fill(store, COMMITS)
    monkeypatch.setattr(segment_tags.SegmentTags, "ask", noted)
    assert store.log.matches(Condition(match(tags=["no:such"]), store.head()), limit=1) == []
    assert asked == ["current.log"]


def test_a_rare_tag_does_not_read_other_frames(opened: Any, model: TagsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """TAG-01: of many events the one with a tag is read, and a condition reads none."""
    store = opened(segment_bytes_max=SMALL)
    model.fill(store, 100)
    one = store.append("order/rare", NewEvent("x.done", {}, tags=["rare:1"])).position
    model.fill(store, 100)
    read: list[int] = []
    body_at = reader.SegmentReader.body_at

    def noted(self: Any, item: Any, offset: int) -> Any:
        read.append(offset)
        return body_at(self, item, offset)

    monkeypatch.setattr(reader.SegmentReader, "body_at", noted)
    monkeypatch.setattr(reader.SegmentReader, "bodies", None)
    ask = functools.partial(store.log.consult, after=0, org=None, over_pruned=False)
    assert [event.position for event in ask(match(tags=["rare:1"])).events] == [one]
    assert len(read) == 1
    absent = match(tags=["rare:1", "rare:2"]) | match(types=["no.such"])
    for query in (absent, match(types=["no.such"], tags=["rare:1"])):
        assert ask(query).events == []
        store.append("order/rare", NewEvent("x.done", {}), unless=query)
    with pytest.raises(errors.ConditionFailed):
        store.append("order/rare", NewEvent("x.done", {}), unless=match(tags=["rare:1"]))
    assert len(read) == 1


def test_a_prune_keeps_what_queries_ask(opened: Any, directory: Path, model: TagsModel) -> None:
    """TAG-03: pruned events still match, also when their frames are written again, joined, and copied."""
    with opened(segment_bytes_max=SMALL) as store:
        model.fill(store, COMMITS)
        model.prune(store, left=1)
        model.check(store)
        for _ in range(2):
            model.fill(store, 100)
            store.log.reclaim(compress_before=1 << 62, progress=lambda position: None)
            model.check(store)
        known = {each.position: each.subject for each in model.written if each.pruned}
        gone = list(store.log.pruned_events())
        assert {(each.position, each.type, frozenset(each.tags), each.org) for each in gone} == {
            (position, subject.type, subject.tags, subject.org) for position, subject in known.items()
        }
        assert verify(store.log).ok
    shutil.rmtree(directory / "index")
    with opened() as store:
        model.check(store)
        assert verify(store.log).ok


def test_events_that_an_earlier_version_pruned_count_whatever_their_type(
    opened: Any, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TAG-03: their types were not kept, so any type may have been theirs. They had no tags."""
    from tallystick.engines.files import rewrite

    left_behind = rewrite._left_behind
    without = lambda gone: (record for record in left_behind(gone) if record[0] != "kept")  # noqa: E731
    monkeypatch.setattr(rewrite, "_left_behind", without)
    with opened(segment_bytes_max=2000) as store:
        for number in range(30):
            store.append("order/1", NewEvent("a.done", {"n": number}))
        upkeep.prune(store, "order/1", 20)
        assert store.log.reclaim(compress_before=1 << 62, progress=lambda position: None).done
        for number in range(20):
            store.append("order/2", NewEvent("b.done", {"n": number}, tags=["b:1"]))
    with opened() as store:
        gone = [each for each in store.log.pruned_events() if each.type is None]
        assert gone
        for types in (["never.seen"], []):
            found = store.log.matches(Condition(match(types=types)), limit=1)
            assert found == [1]
        assert store.log.matches(Condition(match(types=["never.seen"])), limit=1000) == [e.position for e in gone]
        assert store.log.matches(Condition(match(types=["never.seen"]), org="acme"), limit=9) == []
        assert store.log.matches(Condition(match(types=["never.seen"]), gone[-1].position), limit=1) == []
        assert store.log.matches(Condition(match(types=["a.done"], tags=["b:1"])), limit=1) == []
        assert verify(store.log).ok


def test_a_copy_carries_what_queries_ask_of_pruned_events(tmp_path: Path, model: TagsModel) -> None:
    """TAG-03: `receive` writes it, so a name that was taken stays taken in the new store."""
    with tallystick.open(f"files:{tmp_path}/a", segment_bytes_max=SMALL) as one:
        model.fill(one, 100)
        model.prune(one, left=2)
        one.log.reclaim(compress_before=None, progress=lambda position: None)
        with tallystick.open(f"files:{tmp_path}/b", segment_bytes_max=SMALL) as other:
            moving.copy(one, other)
            model.check(other)
            assert list(other.log.pruned_events()) == list(one.log.pruned_events())
            assert verify(other.log).ok


def test_a_name_taken_in_one_process_is_taken_in_the_next_reader(opened: Any, directory: Path) -> None:
    """TAG-02: a reader in another process sees what the writer has committed, before and after it is sealed."""
    writer = opened(segment_bytes_max=SMALL)
    reading = opened(readonly=True)
    for number in range(200):
        tag = f"name:{number}"
        assert reading.consult(match(tags=[tag])).events == []
        position = writer.append("order/1", NewEvent("x.done", {"text": "x" * 200}, tags=[tag])).position
        assert [event.position for event in reading.consult(match(tags=[tag])).events] == [position]
    assert writer.report().facts["segments"] > 2
    assert reading.report().facts["tags_rebuilt"] == 0
