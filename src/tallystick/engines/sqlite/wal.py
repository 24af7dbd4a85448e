"""The bytes of a write-ahead log: how much of it SQLite replays, and whether more than that was committed.

    header 32: magic u32 | version u32 | page size u32 | number u32 | salt 8 | checksum 8
    frame:     page u32 | pages after the commit u32, 0 within a transaction | salt 8 | checksum 8 | the page

Each checksum continues the one before it. SQLite replays up to the last commit before the first frame whose salt or
checksum does not match, and does not report it. What follows that frame tells a torn tail from damage:

| found after it                                  | it is                                                            |
|-------------------------------------------------|------------------------------------------------------------------|
| no commit of this log                           | a transaction that never ended, or old frames                    |
| one commit, and nothing of this log after it    | torn, unless the mark knows of it: it was not yet synced         |
| a commit, and frames of this log after it       | damage: a transaction begins when the one before it is on disk   |
"""

from __future__ import annotations

import os
import struct
from functools import cache
from operator import mul
from typing import BinaryIO

import msgspec

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
_PAGE_BYTES = frozenset(1 << power for power in range(9, 17))
_MASK = 0xFFFFFFFF


class WalContent(msgspec.Struct, frozen=True):
    """What a write-ahead log has. `commits`: how many SQLite replays. `is_torn`: a commit follows after a break."""

    bytes: int = 0
    commits: int = 0
    is_torn: bool = False
    damage: str | None = None


class WalFrame(msgspec.Struct, frozen=True):
    """One frame. `follows`: its checksum continues that of the frame before it, as that frame is stored."""

    number: int
    is_own: bool
    is_commit: bool
    follows: bool


def inspect(path: str) -> WalContent:
    """Read the write-ahead log at a path. Changes nothing, and takes no lock."""
    if not os.path.exists(path):
        return WalContent()
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        if size <= HEADER_BYTES:  # the header is synced before a frame is written
            return WalContent(size)
        header = file.read(HEADER_BYTES)
        order, page_bytes = _MAGIC.get(int.from_bytes(header[:4], "big")), int.from_bytes(header[8:12], "big")
        if order is None or page_bytes not in _PAGE_BYTES or header[24:] != _checksum(order, header[:24], (0, 0)):
            return WalContent(size, damage="the header of its write-ahead log is damaged")
        return _content_of(size, _Frames(file, order, page_bytes, header))


class _Frames:
    """The frames in the order of the file."""

    def __init__(self, file: BinaryIO, order: str, page_bytes: int, header: bytes) -> None:
        self._file, self._order, self._page_bytes = file, order, page_bytes
        self._salt, self._sum = header[16:24], header[24:32]
        self._number = 0

    def next(self) -> WalFrame | None:
        head, page = self._file.read(FRAME_HEADER_BYTES), self._file.read(self._page_bytes)
        if len(page) < self._page_bytes:
            return None
        before, self._sum = struct.unpack(">II", self._sum), head[16:]
        self._number += 1
        is_own = head[8:16] == self._salt and head[:4] != bytes(4)
        follows = is_own and _checksum(self._order, head[:8] + page, before) == self._sum
        return WalFrame(self._number, is_own, head[4:8] != bytes(4), follows)


def _content_of(size: int, frames: _Frames) -> WalContent:
    commits, broken_at, commit_after = 0, 0, 0
    while frame := frames.next():
        if not broken_at:
            commits += frame.follows and frame.is_commit
            broken_at = 0 if frame.follows else frame.number
        elif commit_after and frame.follows:
            reason = f"its write-ahead log is damaged at frame {broken_at}, and commits follow after that frame"
            return WalContent(size, commits, damage=reason)
        if broken_at and frame.is_own and frame.is_commit:
            commit_after = frame.number
    return WalContent(size, commits, is_torn=bool(commit_after))


def _checksum(order: str, data: bytes, before: tuple[int, ...]) -> bytes:
    """SQLite's checksum over words: `a += word + b; b += word + a`, which is a sum with Fibonacci's numbers."""
    count = len(data) // 4
    words = struct.unpack(f"{order}{count}I", data)
    numbers = _fibonacci(count)
    first = numbers[-2] * before[0] + numbers[-1] * before[1] + sum(map(mul, words, numbers[-2::-1]))
    second = numbers[-1] * before[0] + (numbers[-1] + numbers[-2]) * before[1] + sum(map(mul, words, numbers[:0:-1]))
    return struct.pack(">II", first & _MASK, second & _MASK)


@cache
def _fibonacci(count: int) -> list[int]:
    """Fibonacci's numbers F(0) to F(count), modulo 2 ** 32."""
    numbers = [0, 1]
    while len(numbers) <= count:
        numbers.append((numbers[-1] + numbers[-2]) & _MASK)
    return numbers
