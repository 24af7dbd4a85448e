"""kill -9 at any moment: no acknowledged event is missing."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tallystick.store.verify import verify

ROUNDS = int(os.environ.get("TALLY_KILL_ROUNDS", "100"))
ROUNDS_PER_STORE = 20
_WRITE = """
import os, sys, tallystick
from tallystick import ANY, NewEvent
store = tallystick.open("sqlite:" + sys.argv[1])
n = 0
while True:
    n += 1
    a = [NewEvent("thing.done", {"n": n, "text": "x" * (n % 7 * 900)})]
    b = [NewEvent("thing.done", {"n": n})] * (n % 3 + 1)
    done = store.append_all([("order/a", a, ANY), ("order/b", b, ANY)])
    os.write(1, b"".join(b"%d %s\\n" % (part.position, part.link.hex().encode()) for part in done))
"""


@pytest.mark.timeout(1200)
def test_what_was_acknowledged_survives_kill_9(path, spawn, reopen):
    """LH-19, CP-05: over many kills no acknowledged event is missing, and at most one commit was not acknowledged."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    moments = random.Random(seed)
    acknowledged: dict[int, str] = {}
    recoveries = 0
    for number in range(ROUNDS):
        if number % ROUNDS_PER_STORE == 0:  # a new store: looking at everything again takes longer with each round
            acknowledged = {}
            Path(path).unlink(missing_ok=True)
            Path(f"{path}.mark").unlink(missing_ok=True)
        child = spawn(_WRITE, path)
        first = child.stdout.readline()
        time.sleep(moments.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        lines = (first + child.stdout.read()).splitlines()
        assert child.stderr.read() == ""
        assert child.wait() == -signal.SIGKILL
        acknowledged |= {int(position): link for position, link in (line.split() for line in lines)}
        store = reopen()
        recoveries += len(store.report().recovered)
        events = {event.position: event for event in store.events()}
        assert all(events[position].link.hex() == link for position, link in acknowledged.items())
        assert verify(store.log).problems == []
        unheard = [event for position, event in events.items() if position > max(acknowledged)]
        assert len(unheard) <= 4, "more than one commit was not acknowledged"
        assert {event.stream for event in unheard} in (set(), {"order/a", "order/b"}), "half a commit"
        acknowledged |= {event.position: event.link.hex() for event in unheard}
        store.close()
    assert recoveries >= ROUNDS  # each kill was noticed
