"""Power loss and kill at every operation of a compaction, a compression, a joining of segments, and an erasure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tallystick import Store
from tallystick.event.model import Event
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.crash_states import CrashState, crash_states
from tallystick.testing.simulated_disk import SimulatedDisk

SECRET = b"to-be-erased"
SEGMENT_BYTES_MAX = 4096
STATES_MIN = 1000


class Rewritten(msgspec.Struct):
    """A log on a simulated disk: how it was before and after an operation, and where that began."""

    disk: SimulatedDisk
    first: int
    before: list[Event]
    after: list[Event]


def readable(store: Store) -> list[Event]:
    """Every event that is there."""
    return list(store.events(over_pruned=True))


def grown(lab: Any, disk: SimulatedDisk) -> Store:
    """A log of several segments: two streams, one of them with a payload that is to go."""
    store: Store = lab.open_store(disk, segment_bytes_max=SEGMENT_BYTES_MAX)
    for number in range(30):
        store.append(f"order/{number % 2}", lab.event(number, size=250))
        if number == 8:
            store.append("secret/1", [lab.event(1), secret(lab)])
    return store


def secret(lab: Any) -> Any:
    """An event that holds what is to be erased."""
    return msgspec.structs.replace(lab.event(2), payload={"text": SECRET.decode()})


def recorded(lab: Any, act: Callable[[Store], object], prepare: Callable[[Store], object]) -> Rewritten:
    """Do something to such a log, and note every operation on the disk."""
    disk = SimulatedDisk()
    store = grown(lab, disk)
    prepare(store)
    first, before = len(disk.operations), readable(store)
    act(store)
    after = readable(store)
    store.close()
    return Rewritten(disk, first, before, after)


def compact(store: Store, compress_before: int | None = None) -> None:
    """Reclaim, and see that it did something."""
    reclaimed = store.log.reclaim(compress_before=compress_before, progress=lambda done: None)
    assert any("rewritten" in word for word in reclaimed.done)


def compress_by_itself(store: Store) -> None:
    """Seal a segment; what is sealed is then compressed in the background."""
    store.log._compressor._bytes_min = 256  # type: ignore[attr-defined]
    store.log._seal()  # type: ignore[attr-defined]
    store.log._compressor.wait()  # type: ignore[attr-defined]
    assert store.report().facts["compressed_segments"] == store.report().facts["segments"] - 1


def prune_most(store: Store) -> None:
    """Let most segments lie below the floor, with nothing but control facts and the secret in them."""
    for stream in ("order/0", "order/1"):
        upkeep.prune(store, stream, 13)


def join(store: Store) -> None:
    """Reclaim, and see that it joined segments."""
    before = store.report().facts["segments"]
    store.log.reclaim(compress_before=None, progress=lambda done: None)
    assert store.report().facts["segments"] <= before - 2


CASES: dict[str, tuple[Callable[[Store], object], Callable[[Store], object]]] = {
    "compaction": (compact, lambda store: upkeep.prune(store, "order/0", 12)),
    "joining": (join, prune_most),
    "joining compressed segments": (join, lambda store: (compact(store, 1 << 62), prune_most(store))),
    "erasure in a joined segment": (
        lambda store: upkeep.erase(store, "secret/1", 2),
        lambda store: (prune_most(store), join(store)),
    ),
    "compression": (lambda store: compact(store, 1 << 62), lambda store: None),
    "compression by itself": (compress_by_itself, lambda store: None),
    "erasure": (lambda store: upkeep.erase(store, "secret/1", 2), lambda store: None),
    "erasure in a compressed segment": (
        lambda store: upkeep.erase(store, "secret/1", 2),
        lambda store: compact(store, 1 << 62),
    ),
    "erasure in the current segment": (
        lambda store: upkeep.erase(store, "order/1", 15),
        lambda store: upkeep.prune(store, "order/0", 12),
    ),
}


@pytest.fixture(scope="module", params=CASES)
def rewritten(request: pytest.FixtureRequest, lab: Any) -> Rewritten:
    """One recorded operation."""
    return recorded(lab, *CASES[request.param])


def test_every_crash_leaves_the_old_or_the_new(rewritten: Rewritten, lab: Any) -> None:
    """LH-09, LH-19, settled 25: after any crash the log is whole, verifies, and holds what it held before or after."""
    count = 0
    known: dict[frozenset[tuple[str, bytes | None]], list[Event]] = {}
    for state in crash_states(rewritten.disk, first=rewritten.first):
        count += 1
        image = frozenset(state.image().items())
        if image not in known:
            known[image] = opened(lab, state)
        found = [event for event in known[image] if event.position <= rewritten.after[-1].position]
        assert found in (rewritten.before, rewritten.after), state.describe()
    assert count >= STATES_MIN


def opened(lab: Any, state: CrashState) -> list[Event]:
    """The verified events after a crash. What was erased is on no file any more."""
    disk = state.disk()
    with lab.open_store(disk, segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        assert not store.holes(), state.describe()
        assert not verify(store.log).problems, state.describe()
        found = readable(store)
        lab.check_tags(store)
        assert not [name for name in disk.list(lab.directory) if name.endswith(".log.tmp")], state.describe()
        logs = {name.removesuffix(".log") for name in disk.list(lab.directory)}
        indexes = {name.rpartition(".")[0] for name in disk.list(f"{lab.directory}/index")}
        assert len(indexes - logs) <= 1, state.describe()  # a segment that was to be sealed may have its index already
        assert store.report().facts["segments"] == sum(name.endswith(".log") for name in disk.list(lab.directory))
        if any(event.erased and event.stream == "secret/1" for event in found):
            held = [path for path, data in disk.image().items() if data and SECRET in data]
            assert not held, f"{held}\n{state.describe()}"
        store.append("order/after", lab.event(999))
    return found
