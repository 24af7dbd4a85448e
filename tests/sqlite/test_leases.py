"""One writer per run, across real processes."""

from __future__ import annotations

import os
import signal

import pytest

from tallystick import errors

_HOLD = """
import sys, tallystick
store = tallystick.open("sqlite:" + sys.argv[1])
store.append("run/1", tallystick.NewEvent("step.done", {}))
print("held", flush=True)
for line in sys.stdin:
    try:
        store.append("run/1", tallystick.NewEvent("step.done", {}))
        print("appended", flush=True)
    except tallystick.errors.Refused as refusal:
        print(type(refusal).__name__, flush=True)
store.close()
"""


def _ask(child) -> str:
    child.stdin.write("append\n")
    child.stdin.flush()
    return child.stdout.readline().strip()


def test_a_second_writer_is_refused_while_the_first_lives(store, some, path, spawn):
    """EVT-09: an append to a run that another process writes is refused, with any expectation."""
    child = spawn(_HOLD, path)
    assert child.stdout.readline() == "held\n"
    for expected in (-1, 1):
        with pytest.raises(errors.LeaseHeld) as refusal:
            store.append("run/1", some(1), expected=expected)
    assert refusal.value.number == 1
    assert _ask(child) == "appended"


def test_a_killed_writer_is_taken_over_with_a_higher_number(store, some, path, spawn):
    """EVT-09: after SIGKILL the next writer takes the lease, numbered one higher."""
    child = spawn(_HOLD, path)
    assert child.stdout.readline() == "held\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert store.append("run/1", some(1)).seq == 2
    with store.log._database.reading() as connection:
        number, pid = connection.execute("SELECT number, pid FROM leases").fetchone()
    assert (number, pid) == (2, os.getpid())


def test_a_writer_that_lost_its_lease_is_fenced_off(store, some, path, spawn):
    """EVT-09: a writer whose lease was taken over while it slept is refused by its number when it wakes."""
    child = spawn(_HOLD, path)
    assert child.stdout.readline() == "held\n"
    with store.log._database.writing() as connection:  # as if its host had been declared dead
        connection.execute(
            "UPDATE leases SET number = number + 1, host = NULL, pid = NULL, started = NULL, handle = NULL"
        )
    assert store.append("run/1", some(1)).seq == 2
    assert _ask(child) == "LeaseLost"
    assert store.stream_head("run/1").seq == 2


def test_a_stopped_writer_keeps_its_lease(store, some, path, spawn):
    """EVT-09: a stopped process is not dead."""
    child = spawn(_HOLD, path)
    assert child.stdout.readline() == "held\n"
    child.send_signal(signal.SIGSTOP)
    with pytest.raises(errors.LeaseHeld):
        store.append("run/1", some(1))
    child.send_signal(signal.SIGCONT)
    assert _ask(child) == "appended"


def test_closing_gives_the_leases_back(reopen, some):
    """EVT-09: a closed handle has no lease: the next one writes at once, with a higher number."""
    first, second = reopen(), reopen()
    first.append("run/1", some(1))
    with pytest.raises(errors.LeaseHeld):
        second.append("run/1", some(1))
    first.close()
    with second.log._database.reading() as connection:
        assert connection.execute("SELECT number, host, handle FROM leases").fetchone() == (1, None, None)
    assert second.append("run/1", some(1)).seq == 2
    with second.log._database.reading() as connection:
        assert connection.execute("SELECT number FROM leases").fetchone() == (2,)


def test_a_lease_of_a_refused_commit_is_not_taken(reopen, some):
    """EVT-09: a refused transaction leaves no lease."""
    first, second = reopen(), reopen()
    with pytest.raises(errors.Conflict):
        first.append("run/1", some(1), expected=5)
    assert second.append("run/1", some(1)).seq == 1
