"""Random lives of maintenance on a file log and in memory: both show the same after every step.

The file log is reopened, compacted, compressed and robbed of indexes on the way.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import Event, Store, errors
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.maintenance import Maintenance
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import event_id, named
from tallystick.testing.clock import ManualClock

LIVES, STEPS = 8, 40
STREAMS = [f"order/{name}" for name in "abc"]
SEGMENT_BYTES_MAX = 3000

Act = Callable[[Store, random.Random], object]


def key(number: int) -> CommandKey:
    """A command's key."""
    return CommandKey("acme", "u1", "POST /orders", f"k{number}")


def append(store: Store, dice: random.Random) -> object:
    """Some events, of which some may be there already or were pruned."""
    first = dice.randrange(1, 200)
    return store.append(dice.choice(STREAMS), [named(number) for number in range(first, first + dice.randrange(1, 5))])


def prune(store: Store, dice: random.Random) -> object:
    """Up to any seq."""
    stream = dice.choice(STREAMS)
    cut, head = store.cut(stream), store.stream_head(stream)
    first, last = cut.through + 1 if cut else 1, head.seq if head else 0
    return upkeep.prune(store, stream, dice.randint(first, last)) if first <= last else None


def erase(store: Store, dice: random.Random) -> object:
    """Any event that is left, and the commands that appended it."""
    left = [event for event in store.read(over_pruned=True).events if event.stream in STREAMS]
    if not left:
        return None
    event = dice.choice(left)
    erasure, commands = upkeep.erasure_of(event), store.log.commands.touching(event.stream, event.seq)
    both = Maintenance(erasures=(erasure,), erased_responses=tuple(commands))
    return store.record([upkeep.erased_fact(erasure)], maintenance=both)


def snapshot(store: Store, dice: random.Random) -> object:
    """Of a stream that is there."""
    stream, number = dice.choice(STREAMS), dice.randrange(1 << 30)
    if store.stream_head(stream) is None:
        return None
    return upkeep.snapshot(store, stream, b'{"n":%d}' % number, id=event_id(10_000 + number))


def drop(store: Store, dice: random.Random) -> object:
    """Any snapshot."""
    ids = store.log.snapshots.ids()
    if not ids:
        return None
    fact = store.find(dice.choice(ids))
    assert fact is not None
    return upkeep.drop(store, upkeep.snapshot_of(store, fact.data["stream"], b"{}", id=fact.id))


def command(store: Store, dice: random.Random) -> object:
    """A command, run before or not."""
    number = dice.randrange(20)
    record = CommandRecord(key(number), b"h" * 32, b'{"n":%d}' % number, dice.randrange(100))
    parts = [Part(stream, [named(dice.randrange(300, 600))]) for stream in dice.sample(STREAMS, dice.choice((1, 2)))]
    (outcome,) = store.submit([Request(parts, command=record)])
    return type(outcome)


def forget(store: Store, dice: random.Random) -> object:
    """All that are old enough."""
    return store.log.commands.forget(before=dice.randrange(100), limit=1000)


ACTS: list[Act] = [append, append, append, command, command, prune, erase, snapshot, drop, forget]


def tried(store: Store, act: Act, seed: str) -> str:
    """What came of an act, as a word."""
    try:
        found = act(store, random.Random(seed))
        return str(found) if isinstance(found, (int, type)) else type(found).__name__
    except errors.TallyError as refusal:
        return type(refusal).__name__


def shown(events: list[Event]) -> list[Any]:
    """Events whole; of control facts, which have minted ids, what they are."""
    return [event if event.stream in STREAMS else (event.stream, event.seq, event.type) for event in events]


def seen(store: Store) -> dict[str, Any]:
    """Everything that the port shows."""
    log, ids = store.log, [event_id(number) for number in range(1, 600)]
    heads = {stream: store.stream_head(stream) for stream in STREAMS}
    cuts = {stream: store.cut(stream) for stream in STREAMS}
    after = {stream: cut.through if cut else 0 for stream, cut in cuts.items()}
    return {
        "log": shown(store.read(over_pruned=True, limit=10_000).events),
        "streams": [shown(store.read_stream(stream, after=after[stream])) for stream in STREAMS],
        "names": [info.stream for info in store.streams()],
        "floor": (store.floor(), store.head(), heads, cuts, log.cuts(limit=100)),
        "found": [store.find(id_) for id_ in ids],
        "pruned": [log.pruned(id_) for id_ in ids],
        "recorded": [log.recorded_at(position) for position in range(1, store.head() + 1)],
        "snapshots": [(id_, log.snapshots.load(id_)) for id_ in log.snapshots.ids()],
        "commands": [log.commands.load(key(number)) for number in range(20)],
        "touching": [log.commands.touching(stream, seq) for stream in STREAMS for seq in range(1, 30)],
    }


@pytest.mark.parametrize("life", range(LIVES))
def test_a_file_log_shows_what_memory_shows(tmp_path: Path, life: int) -> None:
    """EVT-02, EVT-05, EVT-07, EVT-14, CP-06, LH-09: the same answer, whatever was done in what order."""
    dice, clock = random.Random(life), ManualClock()

    def open_files() -> Store:
        return tallystick.open(f"files:{tmp_path}/log", clock=clock, segment_bytes_max=SEGMENT_BYTES_MAX)

    model, store = tallystick.open("memory:", clock=clock), open_files()
    came_of: set[str] = set()
    rewritten = 0
    for step in range(STEPS):
        act, seed = dice.choice(ACTS), f"{life}.{step}"
        wanted = tried(model, act, seed)
        assert tried(store, act, seed) == wanted, act.__name__
        came_of.add(f"{act.__name__}: {wanted}")
        clock.advance(ns=1_000_000)
        if dice.random() < 0.3:
            before = dice.choice((None, clock() - 5_000_000, clock() + 1))
            rewritten += len(store.log.reclaim(compress_before=before, progress=lambda done: None).done)
        if dice.random() < 0.15:
            store.close()
            for path in (tmp_path / "log" / "index").glob("*.idx"):
                if dice.random() < 0.3:
                    path.unlink()
            store = open_files()
        assert seen(store) == seen(model), act.__name__
    assert verify(store.log).problems == verify(model.log).problems == []
    assert len(came_of) >= 6, "hardly anything happened"
    assert rewritten >= 2, "hardly anything was rewritten"
    store.close()
