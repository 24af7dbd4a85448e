"""Damage in `beside.db`, which is not part of the log: it is quarantined, rebuilt and reported, and blocks nothing."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import errors
from tallystick.engines.tables.database import damage_in
from tallystick.projections import Live, ViewReader
from tallystick.store.verify import verify
from tallystick.testing.builders import events
from tallystick.testing.shop import PLACED, CustomerBalance, order_event

pytestmark = pytest.mark.security

DAMAGES = {
    "text": lambda data: b"not a database\n" * 400,
    "half": lambda data: data[: len(data) // 2],
    "a page of zeros": lambda data: data[:4096] + bytes(4096) + data[8192:],
    "a table name that is no text": lambda data: data.replace(
        b"CREATE TABLE checkpoints", b"CREATE TABLE checkpo\xf3nts"
    ),
    "pages that changed places": lambda data: data[:4096] + data[8192:12288] + data[4096:8192] + data[12288:],
}


def fill(store: tallystick.Store) -> None:
    """Events, a checkpoint, and rows."""
    for number in range(5):
        store.append("order/1", order_event(PLACED, customer=f"c{number}", amount=number))
    Live(store, CustomerBalance()).catch_up()
    store.save_checkpoint("mailer", 4)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_is_set_aside_and_made_again(opened: Any, directory: Path, damage: str) -> None:
    """SAFE-02: the log is whole, so appends continue; consumers and projections start again, and doctor says why."""
    with opened() as store:
        fill(store)
    path = directory / "beside.db"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    broken = path.read_bytes()
    with opened() as store:
        assert any("beside.db" in line and "quarantine" in line for line in store.report().recovered)
        assert store.append("order/1", events(1)).seq == 6
        assert store.load_checkpoint("mailer") == 0
        Live(store, CustomerBalance()).catch_up()
        assert len(dict(ViewReader(store, CustomerBalance().name).items())) == 5
        store.save_checkpoint("mailer", 6)
        assert verify(store.log).ok
    assert broken in [kept.read_bytes() for kept in (directory / "quarantine").glob("beside.db.*")]
    with opened() as store:
        assert store.report().recovered == ()
        assert store.load_checkpoint("mailer") == 6


def test_no_flipped_bit_blocks_the_log(opened: Any, directory: Path) -> None:
    """SAFE-02: whatever a flip makes of header, schema and rows, appends go on, and a loss is reported."""
    with opened() as store:
        fill(store)
    path = directory / "beside.db"
    whole = path.read_bytes()
    chosen = random.Random(5)
    written = [offset for offset, byte in enumerate(whole) if byte and offset > 100]
    blocked, silent = [], []
    for offset in [*range(100), *chosen.sample(written, 250)]:
        bit = chosen.randrange(8)
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1 << bit]) + whole[offset + 1 :])
        try:
            with opened() as store:
                store.append("order/2", events(1))
                with contextlib.suppress(errors.CheckpointDamaged):  # names the consumer, and only it has to wait
                    place, reported = store.load_checkpoint("mailer"), " ".join(store.report().recovered)
                    silent += [(offset, bit)] if place != 4 and "beside.db" not in reported else []
        except errors.TallyError as problem:
            blocked.append((offset, bit, problem.message))
        for left in directory.glob("beside.db*"):
            left.unlink()
    assert blocked == []
    assert silent == []


def test_an_inspection_leaves_the_locks_of_the_process(opened: Any, directory: Path) -> None:
    """SAFE-01: another process that comes and goes must not take the write-ahead log away that this one writes to."""
    store = opened()
    fill(store)
    path = str(directory / "beside.db")
    assert damage_in(path, store.log._side._tables) == ""
    look = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM checkpoints'); c.close()"
    subprocess.run([sys.executable, "-c", look, path], check=True)
    store.save_checkpoint("mailer", 5)
    with opened(readonly=True) as reader:
        assert reader.load_checkpoint("mailer") == 5


def test_an_older_or_newer_format_is_refused_by_name(opened: Any, directory: Path) -> None:
    """It is not damage, and may hold places of consumers: nothing is moved, and the message says what to do."""
    with opened() as store:
        fill(store)
    for version, said in ((0, "older"), (9, "newer")):
        with contextlib.closing(sqlite3.connect(directory / "beside.db")) as other:
            other.execute("ALTER TABLE checkpoints ADD COLUMN note TEXT" if version == 0 else "SELECT 1")
            other.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(errors.TallyError, match=said):
            opened()
    assert list((directory / "quarantine").glob("beside.db*")) == []


def test_a_reader_is_told_that_it_is_no_part_of_the_log(opened: Any, directory: Path) -> None:
    """SAFE-02: what is damaged is named, and no position is."""
    with opened() as store:
        fill(store)
    whole = (directory / "beside.db").read_bytes()
    for damage in DAMAGES.values():
        (directory / "beside.db").write_bytes(damage(whole))
        reader = opened(readonly=True)
        with pytest.raises(errors.ReadFailed, match=r"beside\.db"):
            reader.load_checkpoint("mailer")
    assert len(list(reader.events())) == 5
    assert verify(reader.log).ok


@pytest.mark.parametrize("readonly", [True, False], ids=["reader", "writer"])
@pytest.mark.parametrize("how", ["removed", "emptied", "flipped", "removed with the database"])
def test_a_lost_write_ahead_log_is_said(opened: Any, directory: Path, tmp_path: Path, how: str, readonly: bool) -> None:
    """SAFE-04: rows and places that a killed process had written and that are gone do not go in silence."""
    store = opened()
    fill(store)
    copy = Path(shutil.copytree(directory, tmp_path / "copy"))
    wal = copy / "beside.db-wal"
    if how.startswith("removed"):
        wal.unlink()
        if how != "removed":
            (copy / "beside.db").unlink()
    elif how == "emptied":
        wal.write_bytes(b"")
    else:
        data = bytearray(wal.read_bytes())
        data[len(data) // 2] ^= 1
        wal.write_bytes(data)
    with tallystick.open(f"files:{copy}", readonly=readonly) as again:
        again.load_checkpoint("mailer")
        assert any("beside.db" in line and "lost" in line for line in again.report().recovered)
    with tallystick.open(f"files:{copy}") as again:
        again.save_checkpoint("mailer", 3)
    with tallystick.open(f"files:{copy}") as again:
        assert again.load_checkpoint("mailer") == 3
        assert again.report().recovered == ()


MARKS = {
    "exchanged": lambda wal, mark: (mark.write_bytes(wal.read_bytes()), wal.write_bytes(b"%020d\n" % 7)),
    "removed with it": lambda wal, mark: (mark.unlink(), wal.unlink()),
    "emptied with it": lambda wal, mark: (mark.write_bytes(b""), wal.write_bytes(b"")),
    "cut with it": lambda wal, mark: (mark.write_bytes(mark.read_bytes()[:20]), wal.unlink()),
}


@pytest.mark.parametrize("readonly", [True, False], ids=["reader", "writer"])
@pytest.mark.parametrize("how", MARKS)
def test_a_write_ahead_log_that_is_lost_with_its_mark_is_said(
    opened: Any, directory: Path, tmp_path: Path, how: str, readonly: bool
) -> None:
    """SAFE-04: a mark that is not what was written counts as a loss: nothing else would say that rows are old."""
    with opened() as store:
        fill(store)
    store = opened()
    store.save_checkpoint("mailer", 5)
    copy = Path(shutil.copytree(directory, tmp_path / "copy"))
    MARKS[how](copy / "beside.db-wal", copy / "beside.db.mark")
    with tallystick.open(f"files:{copy}", readonly=readonly) as again:
        assert again.load_checkpoint("mailer") == 4
        assert any("beside.db" in line and "lost" in line for line in again.report().recovered)


def test_nothing_is_said_of_a_killed_process_that_lost_nothing(opened: Any, directory: Path, tmp_path: Path) -> None:
    """A write-ahead log that is whole is brought home without a word."""
    store = opened()
    fill(store)
    copy = Path(shutil.copytree(directory, tmp_path / "copy"))
    with tallystick.open(f"files:{copy}") as again:
        assert again.load_checkpoint("mailer") == 4
        assert again.report().recovered == ()


def test_a_mark_that_is_not_there_yet_claims_no_loss(opened: Any, directory: Path, tmp_path: Path) -> None:
    """SAFE-04: a process that is killed between its first write and the mark lost nothing: the report says "may"."""
    store = opened()
    fill(store)
    copy = Path(shutil.copytree(directory, tmp_path / "copy"))
    (copy / "beside.db.mark").unlink()
    with tallystick.open(f"files:{copy}") as again:
        assert again.load_checkpoint("mailer") == 4
        (said,) = again.report().recovered
    assert said.count(" may ") == 3


def test_a_row_that_is_no_json_any_more_is_named(opened: Any, directory: Path) -> None:
    """SAFE-01: a row whose bytes were changed is refused by name, with what to do."""
    store = opened()
    fill(store)
    with contextlib.closing(sqlite3.connect(directory / "beside.db", isolation_level=None)) as beside:
        beside.execute("UPDATE view_rows SET state = CAST('{\"open\":' AS BLOB) WHERE key = 'c1'")
    view = ViewReader(store, CustomerBalance().name)
    for read in (lambda: view.get("c1"), lambda: dict(view.items())):
        with pytest.raises(errors.RowsDamaged, match=r"'c1' .*"):
            read()
    assert view.get("c2")
