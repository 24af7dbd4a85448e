"""A refill that was killed: the file is the old one or the new one, and is recognised as such."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

import tallystick
from tallystick.engines.sqlite import mark
from tallystick.store.verify import verify

EVENTS = 20
_REFILL_AND_DIE = """
import os, signal, sqlite3, sys, tallystick
from tallystick.engines.sqlite.mark import StoreMarkFile

moment = sys.argv[3]
begin, connect = StoreMarkFile.begin, sqlite3.connect

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def begin_and_die(self, *values):
    begin(self, *values)
    die()

def traced(*values, **options):
    connection = connect(*values, **options)
    connection.set_trace_callback(lambda said: die() if "wal_checkpoint" in said else None)
    return connection

if moment == "before the file is written":
    StoreMarkFile.begin = begin_and_die
elif moment == "before the log is brought home":
    sqlite3.connect = traced
else:
    StoreMarkFile.finish = die
tallystick.refill("sqlite:" + sys.argv[1], "sqlite:" + sys.argv[2])
"""


@pytest.mark.parametrize(
    ("moment", "is_done"),
    [
        ("before the file is written", False),
        ("before the log is brought home", True),
        ("before the mark is closed", True),
    ],
)
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_a_refill_that_was_killed_is_done_or_can_be_done_again(
    path: str, spawn: Callable[..., object], moment: str, is_done: bool, end: str
) -> None:
    """SAFE-02: the write-ahead log that it leaves is recognised as its own."""
    _damaged(path, end)
    child = spawn(_REFILL_AND_DIE, path, f"{path}.copy", moment)
    assert child.wait(60) == -signal.SIGKILL, child.stderr.read()  # type: ignore[attr-defined]
    with tallystick.open(f"sqlite:{path}", readonly=True) as store:
        assert bool(store.holes()) is not is_done
    if not is_done:
        tallystick.refill(f"sqlite:{path}", f"sqlite:{path}.copy")
    with tallystick.open(f"sqlite:{path}") as store:
        assert store.append("order/a", tallystick.NewEvent("thing.done", {})).seq == EVENTS + 1
        assert verify(store.log).problems == []


def _damaged(path: str, end: str) -> None:
    """A store from which another program deleted events, with a copy from before. `end`: how its writer ended."""
    with tallystick.open(f"sqlite:{path}") as store:
        store.append("order/a", [tallystick.NewEvent("thing.done", {})] * EVENTS)
    shutil.copyfile(path, f"{path}.copy")
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("DROP TRIGGER events_are_not_deleted")
        raw.execute("DROP TRIGGER pruned_events_are_noted")
        raw.execute("DELETE FROM events WHERE position = 7")
    if end == "killed":
        known = mark.load(path)
        assert known is not None
        with open(mark.path_of(path), "r+b") as file:
            file.write(mark.encode(mark.StoreMark(known.store_id, known.head, True)))
