"""Damaged stores of an older format: the damage is reported, and a migration does not hide it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import tallystick
from tallystick import errors
from tallystick.cli.main import tally
from tallystick.engines.sqlite import mark, statements, survey
from tallystick.event import canonical, chain, ids
from tallystick.store.verify import verify
from tests.sqlite import older

EVENTS = 10
FRAME = 4096 + 24


def _rows(count: int, *, after: int = 0, link: bytes = chain.GENESIS) -> list[tuple]:
    payload = canonical.encode({"text": "x" * 700})
    draft = ("thing.done", 1, 1, payload, canonical.encode({}), chain.checksum(payload), None)
    drafts = [(*draft[:2], ids.default.mint(1, time_ns=1)[0], *draft[2:]) for _ in range(count)]
    return chain.extend("order/a", drafts, seq=after, position=after + 1, previous=link)


def _append(connection: sqlite3.Connection, rows: list[tuple]) -> None:
    """Append each event in a commit of its own."""
    for row in rows:
        connection.execute("BEGIN")
        connection.execute(statements.named("insert_event"), (*row, 7, None, None, None))
        connection.execute(statements.named("move_head"), (row[1], row[2], row[10], None))
        connection.execute("COMMIT")


def _killed(path: str, *, closed_at: int = 5) -> None:
    """A store of the older format as a killed writer leaves it: some events in the file, and the others in the log."""
    live = f"{path}.live"
    connection = older.create(live, profile="plain")
    rows = _rows(EVENTS)
    _append(connection, rows[:closed_at])
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    _append(connection, rows[closed_at:])
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{live}{suffix}", f"{path}{suffix}")
    connection.close()
    os.unlink(live)


def _closed(path: str) -> None:
    """A store of the older format that was closed."""
    _killed(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert not os.path.exists(f"{path}-wal")


def _mark(path: str, *, head: int, is_open: bool) -> None:
    """The mark that the writer of a store left."""
    with closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        store_id, _ = survey.identity(connection)
    Path(mark.path_of(path)).write_bytes(
        mark.encode(mark.StoreMark(store_id, head, is_open)).ljust(mark.SLOTS * mark.SLOT_BYTES, b"\0")
    )


def _contents(path: str) -> dict[str, bytes]:
    """The files of the store that are not empty, without shared memory."""
    found = {item.name: item.read_bytes() for item in Path(path).parent.iterdir()}
    return {name: content for name, content in found.items() if content and not name.endswith("-shm")}


@pytest.mark.security
@pytest.mark.parametrize("readonly", [True, False])
def test_a_damaged_log_of_an_older_format_is_named(path: str, readonly: bool) -> None:
    """SAFE-01, EVT-10: the error does not send the user to `tally migrate`, and nothing is changed."""
    _killed(path)
    with open(f"{path}-wal", "r+b") as log:
        log.seek(32 + FRAME + 24 + 2048)
        log.write(b"\xff\0\xff\0")
    before = _contents(path)
    with pytest.raises(errors.Damaged, match="not migrated from format 16: its write-ahead log is damaged"):
        tallystick.open(f"sqlite:{path}", readonly=readonly)
    assert _contents(path) == before


@pytest.mark.security
def test_the_command_line_does_not_send_a_user_round_in_a_circle(path: str) -> None:
    """SAFE-01: no command says that nothing is lost."""
    _killed(path)
    with open(f"{path}-wal", "r+b") as log:
        log.seek(32 + FRAME + 24 + 2048)
        log.write(b"\xff\0\xff\0")
    for command in ("migrate", "doctor", "verify"):
        said = CliRunner().invoke(tally, [command, f"sqlite:{path}"])
        assert said.exit_code != 0
        assert "its write-ahead log is damaged" in said.output, said.output
        assert "nothing is lost" not in said.output


@pytest.mark.security
@pytest.mark.parametrize("kept", ["the file", "an older copy"])
def test_commits_that_an_older_format_lost_are_named(path: str, kept: str) -> None:
    """SAFE-01, EVT-10: the mark counts for an older format too, and a migration does not begin a new one."""
    _killed(path)
    _mark(path, head=EVENTS, is_open=kept == "the file")
    os.unlink(f"{path}-wal")
    before = _contents(path)
    for readonly in (True, False, False):
        with pytest.raises(errors.Damaged, match="they were acknowledged, and are lost") as refused:
            tallystick.open(f"sqlite:{path}", readonly=readonly)
        assert (refused.value.first, refused.value.last) == (6, EVENTS)
    assert _contents(path) == before


@pytest.mark.security
def test_a_stale_log_beside_an_older_format_is_not_replayed(path: str) -> None:
    """SAFE-01, EVT-10: a write-ahead log next to a store that was closed without one does not belong to it."""
    _killed(path, closed_at=8)
    log = Path(f"{path}-wal").read_bytes()
    os.unlink(f"{path}-wal")
    _closed(path)
    Path(f"{path}-wal").write_bytes(log)
    _mark(path, head=EVENTS, is_open=False)
    with pytest.raises(errors.Damaged, match="does not belong to it"):
        tallystick.open(f"sqlite:{path}")


@pytest.mark.parametrize("head", [EVENTS, EVENTS - 3])
def test_a_sound_store_of_a_killed_writer_is_migrated(path: str, head: int) -> None:
    """EVT-10: events that the mark knows exist, and events that it does not know yet are kept."""
    _killed(path)
    _mark(path, head=head, is_open=True)
    _require_whole(path)


def test_the_mark_of_another_store_does_not_count(path: str) -> None:
    """EVT-10: a copy of another store in this place is not compared with the mark of the store before it."""
    _closed(path)
    other = mark.encode(mark.StoreMark(b"o" * 16, 90, True)).ljust(mark.SLOTS * mark.SLOT_BYTES, b"\0")
    Path(mark.path_of(path)).write_bytes(other)
    _require_whole(path)


_MIGRATE_AND_DIE = """
import os, signal, sys, tallystick
from tallystick.engines.sqlite import store_file
from tallystick.engines.tables import migrations

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

take = migrations._take

def take_and_die(*values):
    take(*values)
    die()

if sys.argv[2] == "after a step":
    migrations._take = take_and_die
else:
    store_file.StoreFile._begin = die
tallystick.open("sqlite:" + sys.argv[1])
"""


@pytest.mark.parametrize("moment", ["after a step", "after the last step"])
def test_a_killed_migration_is_completed(path: str, spawn: Callable[..., subprocess.Popen[str]], moment: str) -> None:
    """EVT-10: the write-ahead log that it leaves belongs to the store, although the store had been closed before."""
    _closed(path)
    _mark(path, head=EVENTS, is_open=False)
    child = spawn(_MIGRATE_AND_DIE, path, moment)
    assert child.wait(60) == -signal.SIGKILL, child.stderr.read()
    assert os.path.getsize(f"{path}-wal")
    _require_whole(path)


def _require_whole(path: str) -> None:
    """The store opens, has every event, takes another one, and verifies."""
    with tallystick.open(f"sqlite:{path}") as store:
        assert store.holes() == []
        assert store.append("order/a", tallystick.NewEvent("thing.done", {})).position == EVENTS + 1
        assert verify(store.log).problems == []
    known = mark.load(path)
    assert known is not None
    assert (known.head, known.is_open) == (EVENTS + 1, False)
