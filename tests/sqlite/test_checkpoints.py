"""Checkpoints in tables: those of the log, and those of a side database."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing

import pytest

from tallystick import errors
from tallystick.engines.sqlite import migrations
from tallystick.engines.tables import schema
from tallystick.engines.tables.consumers import SqliteCheckpoints
from tallystick.engines.tables.database import open_side
from tallystick.store.checkpoints import Checkpoint

_SAVE = """
import sys, tallystick
store = tallystick.open("sqlite:" + sys.argv[1])
store.append("order/a", tallystick.NewEvent("thing.done", {}))
store.save_checkpoint("c", 1)
print("saved", flush=True)
sys.stdin.readline()
"""


def _at(position: int) -> Checkpoint:
    return Checkpoint("c", b"s" * 16, position, position, b"l" * 32)


@pytest.fixture(params=["log", "beside"])
def table(request, tmp_path):
    """The checkpoints of a log, and of a side database."""
    if request.param == "log":
        yield request.getfixturevalue("store").log.checkpoints
        return
    database = open_side(str(tmp_path / "beside.db"), ("checkpoints",), readonly=False)
    yield SqliteCheckpoints(database)
    database.close()


def test_a_checkpoint_is_found_again(table):
    """CP-07: what was saved is loaded, listed and deleted by its name."""
    assert table.load("c") is None
    table.save(_at(3), previous=None)
    table.save(_at(5), previous=3)
    assert table.load("c") == _at(5)
    assert table.names() == ["c"]
    table.delete("c")
    assert table.names() == []


@pytest.mark.parametrize("previous", [None, 2, 5])
def test_saving_is_a_compare_and_set(table, previous):
    """CP-07: of two consumers of one name, the one that did not see the other's save is refused."""
    table.save(_at(3), previous=None)
    with pytest.raises(errors.Conflict) as conflict:
        table.save(_at(4), previous=previous)
    assert conflict.value.actual == 3
    assert table.load("c") == _at(3)


def test_a_saved_checkpoint_survives_kill_9(path, spawn, reopen):
    """CP-07: a checkpoint is durable when `save` returned."""
    child = spawn(_SAVE, path)
    assert child.stdout.readline() == "saved\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert reopen().load_checkpoint("c") == 1


@pytest.mark.parametrize("name", ["checkpoints", *schema.VIEWS, *schema.DEAD_LETTERS])
def test_both_kinds_of_database_have_the_same_table(name):
    """The table of a store is the one that is created next to other engines."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema.script("dead_letters", name))
        assert schema.definitions(connection)[name] == migrations.expected_schema()[name]
