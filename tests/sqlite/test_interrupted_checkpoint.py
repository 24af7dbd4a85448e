"""A write-ahead log that was only partly checkpointed: the main file alone is a mixture, the store is complete."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

import tallystick
from tallystick import NewEvent
from tallystick.store.verify import verify

PAGE_BYTES = 4096
MIXTURES = 25
BEFORE, MORE = 5, 40


class Checkpoint(NamedTuple):
    """The main file before and after a checkpoint, and the write-ahead log that it copied from."""

    before: bytes
    after: bytes
    log: bytes

    def pages(self) -> list[int]:
        """The pages that it wrote, in the order in which SQLite writes them."""
        return [
            number
            for number in range(len(self.after) // PAGE_BYTES)
            if _page(self.before, number) != _page(self.after, number)
        ]

    def interrupted(self, place: Path, written: Iterable[int]) -> str:
        """A store whose checkpoint wrote these pages and no others."""
        place.mkdir()
        main = bytearray(self.before)
        for number in sorted(written):
            main.extend(bytes(max(0, (number + 1) * PAGE_BYTES - len(main))))
            main[number * PAGE_BYTES : (number + 1) * PAGE_BYTES] = _page(self.after, number)
        (place / "log.db").write_bytes(main)
        (place / "log.db-wal").write_bytes(self.log)
        return f"sqlite:{place}/log.db"


def _page(content: bytes, number: int) -> bytes:
    return content[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]


def _append(store: tallystick.Store, count: int) -> None:
    for _ in range(count):
        store.append("doc/1", [NewEvent("doc.saved", {"text": "x" * 1500})])


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """A checkpoint of forty commits."""
    path = tmp_path / "whole.db"
    with tallystick.open(f"sqlite:{path}") as store:
        _append(store, BEFORE)
    with tallystick.open(f"sqlite:{path}") as store:
        _append(store, MORE)
        before, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
        other = sqlite3.connect(path)
        other.execute("PRAGMA wal_checkpoint(FULL)")
        other.close()
        return Checkpoint(before, path.read_bytes(), log)


def _require_whole(url: str, *, readonly: bool) -> None:
    with tallystick.open(url, readonly=readonly) as store:
        assert len(list(store.read_stream("doc/1"))) == BEFORE + MORE
        assert store.holes() == []
        assert verify(store.log).problems == []
        if not readonly:
            _append(store, 1)


@pytest.mark.parametrize("readonly", [False, True])
def test_a_store_opens_after_any_part_of_a_checkpoint(tmp_path: Path, checkpoint: Checkpoint, readonly: bool) -> None:
    """EVT-06: after a kill or power loss with any pages written, nothing is lost or reported as damaged."""
    pages = checkpoint.pages()
    assert len(pages) > MORE / 2
    dice = random.Random(1)
    parts = [pages[:count] for count in range(len(pages) + 1)]
    parts += [[number for number in pages if dice.random() < 0.5] for _ in range(MIXTURES)]
    for number, written in enumerate(parts):
        place = tmp_path / str(number)
        _require_whole(checkpoint.interrupted(place, written), readonly=readonly)
        shutil.rmtree(place)
