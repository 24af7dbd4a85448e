"""SQLite, killed with SIGKILL while it appends, snapshots and prunes in one commit, erases, and reclaims."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import tallystick
from tallystick import Event, Store
from tallystick.store import facts
from tallystick.store.verify import verify

ROUNDS = int(os.environ.get("TALLY_KILL_ROUNDS", "30"))
ROUNDS_PER_STORE = 10
SLOWNESS_MAX = 10  # rounds continue until enough was done: a slow machine does less before it is killed
DELAY_S_MAX = 0.06
STREAMS = ("order/a", "order/b")

_WRITE = """
import os, random, sys, tallystick
from tallystick import NewEvent
from tallystick.store.maintenance import Maintenance
from tallystick.testing import upkeep

dice = random.Random(sys.argv[2])
store = tallystick.open("sqlite:" + sys.argv[1])

def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def append(stream):
    done = store.append(stream, [NewEvent("made", {"text": "x" * dice.randrange(3000)})] * dice.randrange(1, 6))
    tell("appended", stream, done.last_seq, done.link.hex())

def prune(stream):
    head, cut = store.stream_head(stream), store.cut(stream)
    through = (head.seq if head else 0) - dice.randrange(3)
    if through <= (cut.through if cut else 0):
        return
    cut = upkeep.cut_of(store, stream, through)
    made = upkeep.snapshot_of(store, stream, b'{"n":%d}' % through, seq=through, link=cut.link)
    both = [upkeep.snapshot_fact(made), upkeep.pruned_fact(cut)]
    store.record(both, require=[(stream, head.seq)], maintenance=Maintenance(snapshots=(made,), cuts=(cut,)))
    tell("pruned", stream, through, made.id.hex())

def erase(stream):
    cut = store.cut(stream)
    events = [event for event in store.read_stream(stream, after=cut.through if cut else 0) if event.payload]
    if events:
        tell("erased", stream, upkeep.erase(store, stream, dice.choice(events).seq).seq, "-")

def reclaim(stream):
    store.log.reclaim(compress_before=None, progress=lambda done: None)

while True:
    (work,) = dice.choices((append, prune, erase, reclaim), (5, 3, 3, 1))
    work(dice.choice(("order/a", "order/b")))
"""


def killed_round(path: Path, dice: random.Random) -> list[tuple[str, str, int, str]]:
    """Let a writer run until it is killed; returns what it reported as done."""
    command = [sys.executable, "-c", _WRITE, str(path), str(dice.random())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        first = child.stdout.readline()
        time.sleep(dice.random() * DELAY_S_MAX)
        child.send_signal(signal.SIGKILL)
        told = (first + child.stdout.read()).splitlines()
        assert child.stderr.read() == ""
        assert child.wait() == -signal.SIGKILL
    return [(word, stream, int(seq), value) for word, stream, seq, value in (line.split() for line in told)]


def check(store: Store, told: list[tuple[str, str, int, str]]) -> None:
    """Everything that was acknowledged is there, and every prune has its snapshot."""
    assert verify(store.log).problems == []
    for word, stream, seq, value in told:
        cut = store.cut(stream)
        gone = cut is not None and seq <= cut.through
        if word == "pruned":
            assert gone
            assert store.log.snapshots.load(bytes.fromhex(value)) == b'{"n":%d}' % seq
        elif not gone:
            (event,) = store.read_stream(stream, after=seq - 1, limit=1)
            assert (event.link.hex() == value) if word == "appended" else (event.payload is None)
    bodies = {store.log.snapshots.load(id_) for id_ in store.log.snapshots.ids()}
    pruned = _pruned(store)
    assert bodies == {b'{"n":%d}' % fact.through for fact in pruned}, "a snapshot without its prune, or the reverse"
    for stream in STREAMS:
        cut, of_stream = store.cut(stream), [fact.through for fact in pruned if fact.stream == stream]
        assert (cut.through if cut else 0) == max(of_stream, default=0)


def _facts(store: Store) -> list[Event]:
    return [event for stream in STREAMS for event in store.read_stream(facts.stream_about(stream), limit=100_000)]


def _pruned(store: Store) -> list[facts.Pruned]:
    return [facts.parse(event, facts.Pruned) for event in _facts(store) if event.type == facts.PRUNED]


def _done(store: Store) -> Counter[str]:
    """How often each kind of commit happened."""
    kinds = Counter(event.type for event in _facts(store))
    assert kinds[facts.PRUNED] == kinds[facts.SNAPSHOTTED] == len(store.log.snapshots.ids())
    return Counter({"pruned": kinds[facts.PRUNED], "erased": kinds[facts.ERASED]})


def enough(acknowledged: Counter[str]) -> bool:
    """Whether enough commits of each kind were reported, so that a loss would show."""
    return min(acknowledged[word] for word in ("appended", "pruned", "erased")) >= ROUNDS / 2


@pytest.mark.timeout(900)
def test_maintenance_survives_sigkill_whole_or_not_at_all(tmp_path: Path) -> None:
    """EVT-07, EVT-14: over 30 kills each snapshot has its prune, 0 acknowledged facts are lost, the chain is whole."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    told: list[tuple[str, str, int, str]] = []
    before: Counter[str] = Counter()
    acknowledged: Counter[str] = Counter()
    for number in range(ROUNDS * SLOWNESS_MAX):
        if number >= ROUNDS and enough(acknowledged):
            break
        if number % ROUNDS_PER_STORE == 0:
            told, before = [], Counter()
        path = tmp_path / f"{number // ROUNDS_PER_STORE}.db"
        latest = killed_round(path, dice)
        told += latest
        acknowledged += Counter(word for word, *_ in latest)
        with tallystick.open(f"sqlite:{path}") as store:
            check(store, told)
            now = _done(store)
        heard = Counter(word for word, *_ in latest if word != "appended")
        unheard = now - before - heard
        assert unheard.total() <= 1, "more than one commit was not told of"
        assert not heard - (now - before), "a fact that was told of is missing"
        before = now
    assert enough(acknowledged), f"of too few commits it was told what became of them: {acknowledged}"
