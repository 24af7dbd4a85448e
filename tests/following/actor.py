"""A process of its own on a file log: `actor.py write|read DIRECTORY BOARD …`.

The writer puts what it has synced on a board in shared memory, before the log's own mark can say so. The reader follows
the log, checks every event against the one before it, and checks that the board is never behind what it was shown.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import random
import sys
import time
from typing import Any

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.engines.disk import Disk
from tallystick.event import chain
from tallystick.store.filesystem import File
from tallystick.testing.faults import FaultyFile, FaultyFileSystem

BOUND_SECONDS = 60.0
SEGMENT_BYTES_MAX = 20_000
LAST = "log.ended"


class Board:
    """Two numbers in shared memory: the last position of the current commit, and the last synced one."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._cells = memoryview(mmap.mmap(file.fileno(), 16)).cast("Q")

    begun = property(lambda self: self._cells[0], lambda self, to: self._cells.__setitem__(0, to))
    synced = property(lambda self: self._cells[1], lambda self, to: self._cells.__setitem__(1, to))


class NotingDisk(FaultyFileSystem):
    """The real disk. It notes each sync of the current segment on the board."""

    def __init__(self, board: Board) -> None:
        super().__init__(Disk())
        self.board = board

    def open_write(self, path: str) -> File:
        return NotingFile(self, self.inner.open_write(path), path)


class NotingFile(FaultyFile):
    """A file that reports its syncs."""

    def sync(self) -> None:
        super().sync()
        if self._path.endswith("/current.log"):
            board = getattr(self._system, "board")  # noqa: B009
            board.synced = max(board.synced, board.begun)


def say(what: Any) -> None:
    """Write one line, without buffering."""
    os.write(1, json.dumps(what).encode() + b"\n")


# --- the writer ----------------------------------------------------------------------------------------------------


def write(directory: str, board_path: str, seed: str, commits: str) -> None:
    """Append single events, batches and several streams at once; print each acknowledged position; end the log."""
    dice, board = random.Random(seed), Board(board_path)
    store = tallystick.open(f"files:{directory}", filesystem=NotingDisk(board), segment_bytes_max=SEGMENT_BYTES_MAX)
    board.begun = board.synced = store.head()
    for _ in range(int(commits)):
        parts = [
            (f"order/{name}", [_event(dice) for _ in range(dice.choice((1, 1, 1, 2, 30)))], -1)
            for name in dice.sample("abcdef", dice.choice((1, 1, 2)))
        ]
        say(_append(store, board, parts))
    say(_append(store, board, [("order/end", [NewEvent(LAST, {})], -1)]))
    store.close()


def _event(dice: random.Random) -> NewEvent:
    return NewEvent("order.made", {"text": "x" * dice.randrange(400)})


def _append(store: Store, board: Board, parts: list[tuple[str, list[NewEvent], int]]) -> int:
    board.begun = store.head() + sum(len(events) for _, events, _ in parts)
    done = store.append_all(parts)[-1].position
    assert done == board.begun
    return done


# --- the reader ----------------------------------------------------------------------------------------------------


class Follower:
    """Checks events one after the other, and refuses one that does not follow those before it."""

    def __init__(self) -> None:
        self.position = 0
        self.links: dict[str, tuple[int, bytes]] = {}
        self.ids: list[bytes] = []
        self.ended = False

    def take(self, event: tallystick.Event) -> None:
        """Check one event, and keep it."""
        seq, link = self.links.get(event.stream, (0, chain.GENESIS))
        assert (event.position, event.seq) == (self.position + 1, seq + 1)
        assert event.payload is not None
        assert chain.checksum(event.payload) == event.checksum
        assert chain.link(event, link) == event.link
        self.links[event.stream] = (event.seq, event.link)
        self.position = event.position
        self.ids.append(event.id)
        self.ended = event.type == LAST


def read(directory: str, board_path: str, limit: str) -> None:
    """Follow to the end of the log. Print the position after every page, and at the end a summary of the log."""
    board, follower = Board(board_path), Follower()
    deadline = time.monotonic() + BOUND_SECONDS
    with tallystick.open(f"files:{directory}", readonly=True) as store:
        say("ready")
        while not follower.ended:
            assert time.monotonic() < deadline, f"no end after position {follower.position}"
            head = store.wait(follower.position, timeout=1.0)
            assert follower.position <= head <= board.synced, "a head that is not synced"
            page = store.read(after=follower.position, limit=int(limit))
            for event in page.events:
                follower.take(event)
            assert page.through == follower.position <= board.synced, "an event that is not synced"
            if page.events:
                say(follower.position)
        assert store.holes() == []
        assert all(_finds(store, id_, at) for at, id_ in enumerate(follower.ids, start=1))
        say(described(store))


def _finds(store: Store, id_: bytes, position: int) -> bool:
    found = store.find(id_)
    return found is not None and found.position == position


def described(store: Store) -> dict[str, Any]:
    """A summary of a store: its head, the end of each stream by list and by lookup, and a digest of its events."""
    streams = store.streams()
    heads = {info.stream: store.stream_head(info.stream) for info in streams}
    return {
        "head": store.head(),
        "streams": [[info.stream, info.seq, info.link.hex()] for info in streams],
        "heads": [[name, head.seq, head.link.hex()] for name, head in heads.items() if head is not None],
        "events": {name: _digest(store.read_stream(name, limit=100_000)) for name in heads},
    }


def _digest(events: list[tallystick.Event]) -> str:
    return hashlib.sha256(b"".join(event.link + event.checksum for event in events)).hexdigest()


def lock(directory: str) -> None:
    """Try to become the writer, and print the result."""
    try:
        tallystick.open(f"files:{directory}").close()
        say("opened")
    except errors.StoreLocked as refused:
        say(refused.as_json())


if __name__ == "__main__":
    {"write": write, "read": read, "lock": lock}[sys.argv[1]](*sys.argv[2:])
