"""The race suite of conditions: processes that consult and append over the same tags, some of them killed.

Each event says how many events of its tag its writer had seen. In order of position these numbers must be 0, 1, 2, …:
any other number means that an append passed although another writer had appended meanwhile. Writers without a
condition, writers that look again just before they append, and writers that take the position of their last append for
a marker must be caught, otherwise this suite proves nothing.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import count

import pytest

from tallystick import Store
from tallystick.store.verify import verify

WRITERS, TAGS = 6, 4
_WRITER = """
import os, random, sys, tallystick
from tallystick import Marker, NewEvent, errors, match
path, way, wanted, tags, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
store = tallystick.open("sqlite:" + path, busy_ms=60_000)
chosen = random.Random(seed)
known, last = {}, 0  # how many events of each tag this writer knows of, and the position of its last append
os.write(1, b"ready\\n")
sys.stdin.readline()
passed = 0
while passed < wanted:
    tag = f"seat:{store.head() // 400}-{chosen.randrange(tags)}"  # new ones from time to time, so that none has many
    query = match(types=["seat.taken"], tags=[tag, "all:1"])
    if way == "own append" and tag in known:
        seen, unless = known[tag], Marker(query, last)
    else:
        found = store.consult(query)
        seen, unless = len(found.events), found.marker
        if way == "look again" and len(store.consult(query).events) != seen:
            continue
        if way in ("nothing", "look again"):
            unless = None
    events = [NewEvent("seat.taken", {"seen": seen}, tags=[tag, "all:1"])]
    try:
        done = store.append(f"seat/{chosen.randrange(9)}", events, unless=unless)
    except errors.ConditionFailed:
        known.pop(tag, None)
        continue
    known[tag], last = seen + 1, done.position
    passed += 1
    os.write(1, b"%d\\n" % done.position)
store.close()
"""


class _Race:
    """The writers of one race."""

    def __init__(self, spawn: Callable[..., subprocess.Popen[str]], path: str, way: str) -> None:
        self._spawn, self._path, self._way = spawn, path, way
        self._seeds = count(1)
        self._acknowledged: list[str] = []
        self.killed = 0

    def _start(self, wanted: int) -> subprocess.Popen[str]:
        child = self._spawn(_WRITER, self._path, self._way, str(wanted), str(TAGS), str(next(self._seeds)))
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    def _go(self, child: subprocess.Popen[str]) -> None:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()

    def _end(self, child: subprocess.Popen[str], expected: int) -> int:
        out, error = child.communicate(timeout=900)
        assert (child.returncode, error) == (expected, "")
        self._acknowledged += (lines := out.splitlines())
        return len(lines)

    def run(self, passes: int, *, kills: int = 0) -> list[int]:
        """Let all pass so often together, killing some on the way. Returns the acknowledged positions."""
        moments = random.Random(kills)
        each = passes // WRITERS + 1
        children = [(self._start(each), each) for _ in range(WRITERS)]
        for child, _ in children:
            self._go(child)
        for _ in range(kills):
            time.sleep(0.1 + moments.random() * 0.3)
            child, wanted = children.pop(0)
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                wanted -= self._end(child, -signal.SIGKILL)
                self.killed += 1
            else:
                wanted -= self._end(child, 0)
            if wanted > 0:
                children.append((self._start(wanted), wanted))
                self._go(children[-1][0])
        for child, _ in children:
            self._end(child, 0)
        return list(map(int, self._acknowledged))


def _wrong(store: Store) -> int:
    """How many appends passed although their writer had not seen all that matched."""
    seen: dict[str, list[int]] = defaultdict(list)
    for event in store.events():
        seen[event.tags[-1]].append(event.data["seen"])
    return sum(told != before for tag in seen.values() for before, told in enumerate(tag))


@pytest.mark.parametrize("way", ["nothing", "look again", "own append"])
def test_what_is_wrong_is_caught(
    path: str, reopen: Callable[..., Store], spawn: Callable[..., object], way: str
) -> None:
    """TAG-02: the suite is not blind: without a condition, by a second look, and by positions of appends, some pass."""
    _Race(spawn, path, way).run(600)  # type: ignore[arg-type]
    assert _wrong(reopen()) > 0


@pytest.mark.parametrize(
    ("passes", "kills"), [(600, 3), pytest.param(10_000, 60, marks=pytest.mark.slow)], ids=["short", "long"]
)
@pytest.mark.timeout(1800)
def test_markers_let_nothing_pass_wrongly(
    path: str, reopen: Callable[..., Store], spawn: Callable[..., object], passes: int, kills: int
) -> None:
    """TAG-02: of appends with a marker, none passes wrongly. Those of killed writers are whole or absent."""
    race = _Race(spawn, path, "marker")  # type: ignore[arg-type]
    acknowledged = race.run(passes, kills=kills)
    assert race.killed
    store = reopen()
    assert len(acknowledged) >= passes
    assert len(set(acknowledged)) == len(acknowledged)
    stored = {event.position for event in store.events()}
    assert stored.issuperset(acknowledged)
    assert len(stored) <= len(acknowledged) + race.killed  # a killed writer may not have said its last one
    assert _wrong(store) == 0
    assert verify(store.log).problems == []
