"""Several processes on one database."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from tallystick import Store
from tallystick.store.verify import verify

APPENDS = 500
_RACE = """
import sys, tallystick
from tallystick import NewEvent, errors
store = tallystick.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
wins = 0
for _ in range(int(sys.argv[2])):
    head = store.stream_head("order/a")
    seq = head.seq if head else 0
    try:
        store.append("order/a", NewEvent("thing.done", {"by": sys.argv[3]}), expected=seq)
        wins += 1
    except errors.Conflict as conflict:
        assert conflict.actual > seq
print(wins)
store.close()
"""


def test_eight_processes_with_expectations_lose_and_double_nothing(url: str, reopen: Callable[..., Store]) -> None:
    """CP-02: of 8 x 500 appends with an expected seq, exactly the acknowledged ones are stored, without a gap."""
    reopen()
    command = [sys.executable, "-c", _RACE, url, str(APPENDS)]
    children = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(8)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        wins = {str(number): 0 for number in range(8)}
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        for number, child in enumerate(children):
            out, _ = child.communicate(timeout=240)
            wins[str(number)] = int(out)
    finally:
        for child in children:
            child.kill()
            child.communicate()
    store = reopen()
    stored = store.read_stream("order/a", limit=100_000)
    assert [event.seq for event in stored] == list(range(1, sum(wins.values()) + 1))
    by = [event.data["by"] for event in stored]
    assert {name: by.count(name) for name in wins} == wins
    assert sum(wins.values()) >= APPENDS
    assert verify(store.log).problems == []
