"""Segments below the floor are joined, so that the number of files does not grow with the days."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.engines.files import joined_segments, segment
from tallystick.event.model import Event
from tallystick.scheduler import Scheduler
from tallystick.state import Reducer, as_reducer, fold
from tallystick.state.policy import PRESETS
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import event
from tallystick.testing.clock import ManualClock
from tallystick.testing.contract.other_process import OtherProcess

DAY_SECONDS = 86_400
SMALL = 4096


class Total:
    """Adds up amounts over the whole store."""

    name = "total"
    version = 1
    scope = "store"

    def initial(self) -> dict[str, int]:
        """Nothing yet."""
        return {"cents": 0}

    def apply(self, state: dict[str, int], event: Event) -> dict[str, int]:
        """One event more."""
        return {"cents": state["cents"] + event.data["cents"]}


@pytest.fixture
def total() -> Reducer:
    """A reducer of the whole store."""
    return as_reducer(Total)


def reclaim(store: Store) -> tuple[str, ...]:
    """Give room back; says what was done."""
    done: tuple[str, ...] = store.log.reclaim(compress_before=None, progress=lambda position: None).done
    return done


def logs(directory: Path) -> list[str]:
    """The sealed segments."""
    return sorted(path.name for path in directory.glob("2*.log"))


def indexes(directory: Path) -> list[str]:
    """The indexes of sealed segments."""
    return sorted(path.stem + ".log" for path in (directory / "index").glob("2*.idx"))


@pytest.fixture
def grown(opened: Any, large: NewEvent) -> Store:
    """Six sealed segments, all below the floor; two events of another stream are among them, and one is after them."""
    store: Store = opened(segment_bytes_max=SMALL)
    for number in range(5):
        store.append("order/1", large)
        if number < 2:
            store.append("cart/1", event(number))
    upkeep.prune(store, "order/1", 5)
    store.append("order/1", large)
    return store


def test_files_do_not_grow_with_the_days(opened: Any, directory: Path, total: Reducer) -> None:
    """LH-09: by the preset that keeps 90 days the floor moves, and each day as many files go as come."""
    clock = ManualClock()
    store = opened(clock=clock)
    scheduler = Scheduler(store, [total], PRESETS["keep-90-days"])
    counts: dict[int, tuple[int, int, int]] = {}
    for day in range(115):
        store.append(f"order/{day % 3}", [NewEvent("order.paid", {"cents": day}) for _ in range(5)])
        clock.advance(seconds=DAY_SECONDS)
        scheduler.tick()
        sizes = [path.stat().st_size for path in directory.glob("*.log")]
        counts[day] = len(sizes), len(indexes(directory)), sum(sizes)
    assert store.floor() > 0
    assert counts[100][:2] == counts[114][:2]
    assert counts[100][0] <= 93
    pruned = {item.stream: item.through for item in store.log.cuts(limit=10)}
    assert sum(pruned.values()) >= 5 * 20
    facts = [item for item in store.events(over_pruned=True) if item.stream.startswith("tally.")]
    oldest = next(path for path in map(directory.joinpath, logs(directory)))
    with tallystick.open(f"files:{directory}", readonly=True) as reader:
        assert reader.log._view.segments[0].name == oldest.name
        inside = reader.log._view.segments[0].next_position
    assert oldest.stat().st_size <= 800 * sum(item.position < inside for item in facts)  # facts, and little else
    assert fold(store, total).value["cents"] == 5 * sum(range(115))
    assert verify(store.log).ok
    store.close()
    again = opened(clock=clock)
    assert fold(again, total).value["cents"] == 5 * sum(range(115))
    assert verify(again.log).ok
    assert again.report().problems == ()


def test_what_is_left_is_the_same(grown: Store, opened: Any, directory: Path) -> None:
    """LH-09, LH-06: events, positions, links, ends, facts and refusals are those of before, and so after opening."""
    before = seen(grown)
    names = logs(directory)
    assert len(names) >= 4
    (word,) = [word for word in reclaim(grown) if "joined to one" in word]
    assert word.startswith(f"{len(names) - 1} segments were joined to one, {names[-2]}: ")
    assert logs(directory) == indexes(directory) == names[-2:]
    assert seen(grown) == before
    assert verify(grown.log).ok
    assert reclaim(grown) == ()
    grown.close()
    again = opened(segment_bytes_max=SMALL)
    assert seen(again) == before
    assert verify(again.log).ok
    assert again.report().facts["indexes_rebuilt"] == 0


def seen(store: Store) -> list[Any]:
    """What a log shows of itself."""
    with pytest.raises(errors.HistoryPruned):
        store.read_stream("order/1")
    return [
        list(store.events(over_pruned=True)),
        list(store.stream("cart/1")),
        list(store.stream("order/1", after=5)),
        [store.log.recorded_at(number) is not None for number in range(1, store.head() + 1)],
        store.log.streams(limit=100),
        store.log.cuts(limit=100),
        (store.head(), store.floor()),
    ]


def test_joined_segments_are_joined_again(grown: Store, opened: Any, directory: Path, large: NewEvent) -> None:
    """LH-09: what is pruned later joins what was joined before, and a segment of it that comes back is known."""
    reclaim(grown)
    kept = directory.parent / "kept.log"
    first = logs(directory)[0]
    shutil.copy(directory / first, kept)
    for seq in (7, 9, 11):
        grown.append("order/1", large)
        grown.append("order/1", large)
        upkeep.prune(grown, "order/1", seq)
        assert any("joined to one" in word for word in reclaim(grown))
        assert len(logs(directory)) <= 3
    before = list(grown.events(over_pruned=True))
    grown.close()
    assert first not in logs(directory)
    shutil.copy(kept, directory / first)
    again = opened(segment_bytes_max=SMALL)
    assert list(again.events(over_pruned=True)) == before
    assert first not in logs(directory)


def test_what_is_large_stays_alone(
    opened: Any, directory: Path, large: NewEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LH-09, LH-06: a joined segment follows one that was not joined, and is as large as it may be at most."""
    monkeypatch.setattr(joined_segments, "JOINED_BYTES_MAX", 2500)
    store = opened(segment_bytes_max=SMALL, compress_bytes_min=1 << 40)
    store.append("cart/1", large)
    for seq in range(1, 13):
        store.append("order/1", large)
        upkeep.prune(store, "order/1", seq)
    before = list(store.events(over_pruned=True))
    names = logs(directory)
    assert len([word for word in reclaim(store) if "joined to one" in word]) > 1
    assert names[0] in logs(directory)
    sizes = [(directory / name).stat().st_size for name in logs(directory)]
    assert max(sizes[1:]) <= 2500
    assert all(one + other > 2500 for one, other in itertools.pairwise(sizes[:-1]))
    store.close()
    again = opened(segment_bytes_max=SMALL)
    assert list(again.events(over_pruned=True)) == before
    assert again.report().problems == ()
    assert verify(again.log).ok


@pytest.mark.parametrize("readonly", [True, False], ids=["reader", "writer"])
def test_a_segment_that_was_joined_and_is_there_again_is_no_part_of_the_log(
    grown: Store, opened: Any, directory: Path, readonly: bool
) -> None:
    """LH-09: a crash or a partial restore leaves it next to the joined one; a writer removes it."""
    names = logs(directory)
    for name in names:
        shutil.copy(directory / name, directory.parent / name)
    reclaim(grown)
    before = list(grown.events(over_pruned=True))
    grown.close()
    for name in names[:-2]:
        shutil.copy(directory.parent / name, directory / name)
    with opened(readonly=readonly) as store:
        assert list(store.events(over_pruned=True)) == before
        assert store.report().problems == ()
        assert verify(store.log).ok
    assert logs(directory) == (names if readonly else names[-2:])


def test_a_segment_that_no_joined_one_names_is_damage(grown: Store, opened: Any, directory: Path) -> None:
    """LH-16: that it lies in its range does not make it a part of it: what another writer wrote is not thrown away."""
    name = logs(directory)[0]
    data = (directory / name).read_bytes()
    reclaim(grown)
    grown.close()
    header = segment.decode(data[: segment.SIZE_MAX], path="")
    other = msgspec.structs.replace(header, segment_id=b"of-another-write")
    (directory / name).write_bytes(segment.encode(other) + data[segment.SIZE :])
    with opened(readonly=True) as damaged:
        assert "a second writer or a restored copy" in damaged.report().problems[0].reason
    opened().close()
    assert (directory / name).exists()


def test_readers_go_on(grown: Store, opened: Any, directory: Path, large: NewEvent) -> None:
    """LH-07, EVT-06: a reader with the old files open, and one in another process, see what they saw, and more."""
    before = list(grown.events(over_pruned=True))
    reader = opened(readonly=True)
    cold = opened(readonly=True)
    assert list(reader.events(over_pruned=True)) == before
    with OtherProcess("follow", grown.log.url, 3) as other:
        assert other.said == "ready"
        cold.log._view.handles.release_all()
        reclaim(grown)
        grown.append("follow/1", [NewEvent("thing.happened", {"n": number}) for number in range(3)])
        assert list(reader.events(over_pruned=True))[: len(before)] == before
        assert list(cold.events(over_pruned=True))[: len(before)] == before
        assert [item.id for item in cold.stream("cart/1")] == [item.id for item in grown.stream("cart/1")]
        assert verify(reader.log).ok
        assert verify(cold.log).ok


def test_what_outlives_its_event_outlives_joining(opened: Any, directory: Path, large: NewEvent) -> None:
    """EVT-03, EVT-09: ids of pruned events, sources and commands are known; forgotten commands go."""
    store = opened(segment_bytes_max=SMALL)
    keys = [CommandKey("acme", "u1", "POST /orders", f"k{number}") for number in range(4)]
    for number, key in enumerate(keys):
        record = CommandRecord(key, b"h" * 32, b'{"ok":true}', number + 1)
        (outcome,) = store.submit([Request([Part("order/1", [large])], command=record)])
        assert isinstance(outcome, list)
    sourced = NewEvent("thing.happened", {}, meta={"source": "till", "source_seq": 7})
    given = store.append("order/1", sourced)
    gone = store.read_stream("order/1")[0]
    upkeep.prune(store, "order/1", 5)
    store.append("order/1", large)
    assert store.log.commands.forget(before=2, limit=10) == 1
    assert any("joined to one" in word for word in reclaim(store))
    store.close()
    store = opened(segment_bytes_max=SMALL)
    assert given
    assert store.log.pruned(gone.id)
    assert store.log.source_head("", "till") == 7
    assert [store.log.commands.load(key) is not None for key in keys] == [False, True, True, True]
    assert store.log.commands.forget(before=100, limit=2) == 2
    assert store.log.commands.forget(before=100, limit=10) == 1
    assert store.log.commands.load(keys[3]) is None


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_joined_segment_that_is_lost_is_refilled(grown: Store, opened: Any, directory: Path, when: str) -> None:
    """LH-16: from a copy of before the joining, and of after it."""
    copy = directory.parent / "copy"
    if when == "before":
        shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("lock"))
    reclaim(grown)
    before = list(grown.events(over_pruned=True))
    grown.close()
    if when == "after":
        shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("lock"))
    (directory / logs(directory)[0]).unlink()
    with opened(refill_from=f"files:{copy}") as healed:
        assert list(healed.events(over_pruned=True))[: len(before)] == before
        assert verify(healed.log).ok
        reclaim(healed)
    with opened() as again:
        assert verify(again.log).ok
        assert list(again.events(over_pruned=True))[: len(before)] == before
