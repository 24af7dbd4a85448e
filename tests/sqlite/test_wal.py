"""The bytes of write-ahead logs that SQLite itself wrote."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.engines.sqlite import wal
from tallystick.engines.sqlite.wal import FRAME_HEADER_BYTES, HEADER_BYTES

PAGE_BYTES = 512


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database whose write-ahead log is never checkpointed automatically."""
    connection = sqlite3.connect(tmp_path / "db", isolation_level=None)
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("CREATE TABLE kept (text)")
    yield connection
    connection.close()


def _commit(database: sqlite3.Connection, number: int) -> None:
    database.execute("INSERT INTO kept VALUES (?)", (f"{number} " * 10,))


def _left(tmp_path: Path) -> bytes:
    shutil.copy(tmp_path / "db-wal", tmp_path / "left")
    return (tmp_path / "left").read_bytes()


def _look(tmp_path: Path, data: bytes) -> wal.WalContent:
    (tmp_path / "left").write_bytes(data)
    return wal.inspect(str(tmp_path / "left"))


def _frames(data: bytes) -> int:
    return (len(data) - HEADER_BYTES) // (FRAME_HEADER_BYTES + PAGE_BYTES)


def _flipped(data: bytes, frame: int) -> bytes:
    at = HEADER_BYTES + frame * (FRAME_HEADER_BYTES + PAGE_BYTES) + FRAME_HEADER_BYTES + 100
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_every_commit_is_counted(database: sqlite3.Connection, tmp_path: Path) -> None:
    """In an intact log every commit is counted, and nothing is torn or damaged."""
    for number in range(5):
        _commit(database, number)
    data = _left(tmp_path)
    assert _look(tmp_path, data) == wal.WalContent(len(data), 6)
    assert _look(tmp_path, b"") == wal.WalContent(0)
    for header in (data[:HEADER_BYTES], bytes(HEADER_BYTES)):  # it is synced before a frame is written
        assert _look(tmp_path, header) == wal.WalContent(HEADER_BYTES)


def test_frames_of_an_earlier_round_are_not_a_torn_commit(database: sqlite3.Connection, tmp_path: Path) -> None:
    """SQLite starts again at the front of the file: the frames after the new ones have another salt."""
    for number in range(20):
        _commit(database, number)
    size = len(_left(tmp_path))
    database.execute("PRAGMA wal_checkpoint(RESTART)")
    _commit(database, 20)
    data = _left(tmp_path)
    assert len(data) == size
    assert _look(tmp_path, data) == wal.WalContent(size, 1)


def test_space_that_was_never_written_is_not_a_torn_commit(database: sqlite3.Connection, tmp_path: Path) -> None:
    """A file that was extended before its frames arrived has zeros after them."""
    _commit(database, 1)
    data = _left(tmp_path) + bytes(4 * (FRAME_HEADER_BYTES + PAGE_BYTES))
    assert _look(tmp_path, data) == wal.WalContent(len(data), 2)


def test_the_last_commit_may_be_torn_and_an_earlier_one_is_damage(database: sqlite3.Connection, tmp_path: Path) -> None:
    """What follows the broken frame decides, and the frame is named."""
    for number in range(5):
        _commit(database, number)
    data = _left(tmp_path)
    frames = _frames(data)
    torn = _look(tmp_path, _flipped(data, frames - 1))
    assert (torn.commits, torn.is_torn, torn.damage) == (5, True, None)
    damaged = _look(tmp_path, _flipped(data, frames - 3))
    assert (damaged.is_torn, damaged.commits < 5) == (False, True)
    assert f"damaged at frame {frames - 2}," in (damaged.damage or "")


@pytest.mark.parametrize("byte", [0, 3, 8, 11, 16, 23, 24, 31])
def test_a_damaged_header_is_named(database: sqlite3.Connection, tmp_path: Path, byte: int) -> None:
    """The magic number, the page size, the salt, the checksum: without one of them the log cannot be read."""
    _commit(database, 1)
    data = bytearray(_left(tmp_path))
    data[byte] ^= 0x40
    assert "the header of its write-ahead log is damaged" in (_look(tmp_path, bytes(data)).damage or "")


def test_both_orders_of_bytes_are_read(database: sqlite3.Connection, tmp_path: Path) -> None:
    """The magic number gives the byte order of the checksums, on any machine."""
    _commit(database, 1)
    data = _left(tmp_path)
    magic = int.from_bytes(data[:4], "big")
    header = (magic ^ 1).to_bytes(4, "big") + data[4:24]
    order = ">" if magic == 0x377F0682 else "<"
    turned = header + wal._checksum(order, header, (0, 0))
    for at in range(HEADER_BYTES, len(data), FRAME_HEADER_BYTES + PAGE_BYTES):
        head, page = data[at : at + 16], data[at + FRAME_HEADER_BYTES : at + FRAME_HEADER_BYTES + PAGE_BYTES]
        before = turned[-8:] if at == HEADER_BYTES else turned[-PAGE_BYTES - 8 : -PAGE_BYTES]
        sums = (int.from_bytes(before[:4], "big"), int.from_bytes(before[4:], "big"))
        turned += head + wal._checksum(order, head[:8] + page, sums) + page
    assert _look(tmp_path, turned) == wal.WalContent(len(data), 2)
