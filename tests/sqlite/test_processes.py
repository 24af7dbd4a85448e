"""Several processes write the same file."""

from __future__ import annotations

from tallystick.store.verify import verify

_RACE = """
import sys, tallystick
from tallystick import NewEvent, errors
store = tallystick.open("sqlite:" + sys.argv[1], busy_ms=60_000)
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


def test_eight_processes_with_expectations_lose_and_double_nothing(path, reopen, spawn):
    """EVT-01: of 8 x 500 appends with an expected seq, exactly those that were acknowledged are there."""
    children = [spawn(_RACE, path, "500", str(number)) for number in range(8)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = [child.communicate(timeout=240) for child in children]
    assert {error for _, error in answers} == {""}
    store = reopen()
    wins = {str(number): int(out) for number, (out, _) in enumerate(answers)}
    assert store.stream_head("order/a").seq == sum(wins.values()) == store.head()
    written = [event.data["by"] for event in store.events()]
    assert {name: written.count(name) for name in wins} == wins
    assert verify(store.log).problems == []
