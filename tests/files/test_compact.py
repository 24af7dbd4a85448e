"""Compaction: what was pruned leaves the disk, what must outlive it stays, and nothing else changes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tallystick import NewEvent, errors
from tallystick.engines.files import segment
from tallystick.engines.files.compressed import open_segment
from tallystick.engines.files.frame import decode_body
from tallystick.engines.files.scan import Scanner
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import event_id, events, named, text

SMALL = 5600


def fill(store: Any, count: int = 60, *, streams: int = 3, size: int = 150) -> None:
    """Append one by one to several streams, with sources and an org."""
    for number in range(count):
        meta = {"org": "acme", "source": "s", "source_seq": number + 1}
        payload = {"number": number, "text": text(size, seed=number)}
        store.append(f"order/{number % streams}", NewEvent("thing.happened", payload, meta=meta))


def reclaim(store: Any, compress_before: int | None = None) -> Any:
    """Reclaim everything."""
    return store.log.reclaim(compress_before=compress_before, progress=lambda done: None)


def raw(store: Any, number: int) -> list[tuple[Any, Any]]:
    """The frames of a segment as they stand in its file, with their bodies."""
    view = store.log._view
    item = view.segments[number]
    header, file = open_segment(view.handles.files, f"{view.handles.directory}/{item.name}")
    assert header.identity == item.header.identity
    scanner = Scanner(file, header.identity, offset=header.size, end=item.end, position=header.first_position)
    found = [(frame, decode_body(frame, data)) for frame, data in scanner]
    assert scanner.clean
    return found


def test_pruned_events_leave_the_disk(opened: Any, directory: Path) -> None:
    """LH-09: the payloads are gone, the files are smaller, and everything else is as it was."""
    store = opened(segment_bytes_max=SMALL)
    fill(store)
    gone = store.read_stream("order/0")
    written = b"".join(path.read_bytes() for path in directory.glob("*.log"))
    assert all(event.link in written and event.payload in written for event in gone)
    upkeep.prune(store, "order/0", 20)
    before, head = list(store.events(over_pruned=True)), store.head()
    done = reclaim(store)
    assert done.bytes_after < 0.8 * done.bytes_before
    held = b"".join(path.read_bytes() for path in directory.glob("*.log"))
    assert [event.seq for event in gone if event.link in held] == [20]  # the cut goes on from that link
    assert not [event for event in gone if event.payload in held]
    for again in (store, opened(readonly=True)):
        assert list(again.events(over_pruned=True)) == before
        assert again.head() == head
        assert verify(again.log).problems == []
    assert reclaim(store).done == ()


def test_frames_cover_every_position_and_empty_ones_are_one(opened: Any) -> None:
    """LH-09: positions stay where they were; a stretch without events is one frame."""
    store = opened(segment_bytes_max=SMALL)
    fill(store, streams=1)
    upkeep.prune(store, "order/0", 58)
    reclaim(store)
    frames = raw(store, 0)
    assert len(frames) == 1
    frame, body = frames[0]
    assert (frame.first_position, body.events) == (1, [])
    assert frame.next_position == store.log._view.segments[1].header.first_position
    assert [event.position for event in store.events(over_pruned=True)][:2] == [59, 60]
    assert store.read(after=0, over_pruned=True, limit=1).through == 59


def test_a_little_pruned_is_not_worth_a_rewriting(opened: Any, directory: Path) -> None:
    """LH-09: less than a fifth of a segment stays, until the segment is rewritten anyway."""
    store = opened(segment_bytes_max=SMALL)
    fill(store, streams=10)
    gone = store.read_stream("order/3")[0]
    upkeep.prune(store, "order/3", 1)
    assert reclaim(store).done == ()
    assert any(gone.payload in path.read_bytes() for path in directory.glob("*.log"))
    reclaim(store, 1 << 62)
    assert all(gone.id not in [event.id for event in body.events] for _, body in raw(store, 0))
    assert store.log.pruned(gone.id)


def test_ids_and_sources_outlive_their_events(opened: Any) -> None:
    """LH-03: after compaction, reopening and a new index a pruned id is refused, and so is an old source seq."""
    store = opened(segment_bytes_max=1550)
    store.append("order/1", [named(1), named(2), named(3)])
    numbered = {"org": "acme", "source": "s", "source_seq": 7}
    store.append("order/2", [NewEvent("thing.happened", {"n": 1}, meta=numbered)])
    store.append("order/3", NewEvent("thing.happened", {"text": text(2000)}))
    store.append("order/4", events(1))
    upkeep.prune(store, "order/1", 3)
    upkeep.prune(store, "order/2", 1)
    assert reclaim(store).done
    assert not [event for _, body in raw(store, 0) for event in body.events if event.stream in ("order/1", "order/2")]
    store.close()
    store = opened(segment_bytes_max=1550)
    for rebuilt in (False, True):
        if rebuilt:
            store.close()
            for path in Path(store.log.url.removeprefix("files:")).glob("index/*.idx"):
                path.unlink()
            store = opened(segment_bytes_max=1550)
        assert store.find(event_id(1)) is None
        assert store.log.pruned(event_id(1))
        with pytest.raises(errors.DuplicateId, match="pruned"):
            store.append("order/1", named(1))
        with pytest.raises(errors.SourceRepeated):
            store.append("order/2", NewEvent("thing.happened", {}, meta=numbered))
        assert store.log.source_head("", "s") == 0
        head = store.stream_head("order/1")
        assert head is not None
        assert head.seq == 3
        assert verify(store.log).problems == []


def test_leases_and_snapshots_survive(opened: Any) -> None:
    """EVT-09, LH-12: side records stay though the events of their frames go."""
    store = opened(segment_bytes_max=SMALL)
    store.append("run/one", events(3))
    made = upkeep.snapshot(store, "run/one")
    fill(store)
    upkeep.prune(store, "run/one", 3)
    upkeep.prune(store, "order/0", 20)
    number = store.log.lease("run/one").number
    reclaim(store, 1 << 62)
    store.close()
    store = opened()
    assert store.log.lease("run/one").number == number
    assert store.log.snapshots.load(made.id) == made.body
    assert verify(store.log).problems == []


def test_an_org_outlives_the_event_that_fixed_it(opened: Any) -> None:
    """A stream keeps its org though the event that named it is off the disk, and the index was made again."""
    store = opened(segment_bytes_max=SMALL)
    store.append("order/1", NewEvent("thing.happened", {}, meta={"org": "acme"}))
    store.append("order/1", events(3))
    fill(store)
    upkeep.prune(store, "order/1", 2)
    reclaim(store, 1 << 62)
    store.close()
    for path in Path(store.log.url.removeprefix("files:")).glob("index/*.idx"):
        path.unlink()
    store = opened()
    with pytest.raises(errors.OrgMismatch):
        store.append("order/1", NewEvent("thing.happened", {}, meta={"org": "other"}))


def test_a_segment_is_rewritten_again_and_again(opened: Any) -> None:
    """LH-09: generation after generation, plain and compressed; each holds what is left."""
    store = opened(segment_bytes_max=SMALL)
    fill(store)
    for number, through in enumerate((5, 10, 15), start=1):
        upkeep.prune(store, "order/0", through)
        upkeep.prune(store, "order/1", through)
        before = list(store.events(over_pruned=True))
        assert reclaim(store, 1 << 62 if number == 2 else None).done
        assert list(store.events(over_pruned=True)) == before
        assert verify(store.log).problems == []
    generations = [item.header.generation for item in store.log._view.segments]
    assert max(generations) >= 2
    assert store.log._view.segments[0].header.ending.encoding == segment.GZIP


def test_appends_and_reads_go_on_meanwhile(opened: Any) -> None:
    """LH-09: threads append and read while segments are rewritten; nothing is missed, repeated or refused."""
    store = opened(segment_bytes_max=SMALL)
    fill(store, 200)
    ended, problems = threading.Event(), []

    def follow() -> None:
        after, seen = 0, 0
        try:
            while not (ended.is_set() and after >= store.head()):
                page = store.read(after=after, over_pruned=True, limit=7)
                positions = [event.position for event in page.events]
                assert all(position > after for position in positions)
                assert positions == sorted(positions)
                kept = [event for event in page.events if event.stream == "order/2"]
                assert [event.seq for event in kept] == list(range(seen + 1, seen + 1 + len(kept)))
                seen += len(kept)
                after = page.through
        except Exception as problem:
            problems.append(problem)

    def write() -> None:
        try:
            for number in range(150):
                store.append("order/2", NewEvent("thing.happened", {"more": number, "text": "x" * 200}))
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=act) for act in (follow, follow, write)]
    for thread in threads:
        thread.start()
    for through in range(6, 60, 6):
        upkeep.prune(store, "order/0", through)
        reclaim(store, 1 << 62 if through % 12 else None)
    threads[-1].join()
    ended.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert verify(store.log).problems == []


def test_a_damaged_segment_is_not_rewritten(opened: Any, directory: Path, flip: Any) -> None:
    """Settled 15: reading finds the damage, the segment stays as it is, and appends are refused."""
    store = opened(segment_bytes_max=SMALL)
    fill(store)
    upkeep.prune(store, "order/0", 10)
    path = sorted(directory.glob("2*.log"))[0]
    flip(path, 3000)
    damaged = path.read_bytes()
    assert any("was not rewritten" in word for word in reclaim(store).done)
    assert path.read_bytes() == damaged
    assert store.holes()
    with pytest.raises(errors.Damaged):
        store.append("order/1", events(1))


def test_a_reader_does_not_reclaim(opened: Any) -> None:
    """LH-09: only the writer changes files."""
    opened().append("order/1", events(1))
    with pytest.raises(errors.ReadOnly):
        reclaim(opened(readonly=True))
