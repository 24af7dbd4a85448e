"""Checkpoints in tables: those of the log, and those of a database beside one."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing

import pytest

from tallystick import errors
from tallystick.engines.sqlite import migrations
from tallystick.engines.tables.checkpoints import SCHEMA, SqliteCheckpoints
from tallystick.engines.tables.database import open_beside
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
    """The checkpoints of a log, and of a database beside one."""
    if request.param == "log":
        yield request.getfixturevalue("store").log.checkpoints
        return
    database = open_beside(str(tmp_path / "beside.db"), SCHEMA)
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


def test_both_kinds_of_database_have_the_same_table():
    """The table that a migration makes is the one that is made beside other engines."""
    found = []
    for schema in (SCHEMA, migrations.expected_schema()["checkpoints"]):
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(schema)
            found.append(connection.execute("PRAGMA table_info(checkpoints)").fetchall())
    assert found[0] == found[1]
