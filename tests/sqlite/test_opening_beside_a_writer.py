"""A store can be opened at any moment while others write to it, and is never reported as damaged."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tallystick
from tallystick.engines.sqlite import mark, opening_inspection, statements, store_file, survey, wal
from tallystick.engines.tables import translate

OPENINGS = 150

WRITER = """
import sys, tallystick
from tallystick import NewEvent
store = tallystick.open(sys.argv[1])
batch = [NewEvent("doc.saved", {"text": "x" * 2000}) for _ in range(200)]
print("ready", flush=True)
while True:
    store.append("doc/1", batch)
"""


def test_opening_beside_a_busy_writer_never_looks_like_damage(tmp_path: Path) -> None:
    """EVT-06: a reader does not see damage while a writer checkpoints all the time."""
    url = f"sqlite:{tmp_path}/log.db"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        for _ in range(OPENINGS):
            with tallystick.open(url, readonly=True) as store:
                assert store.holes() == []
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()  # type: ignore[union-attr]


VISITOR = """
import sys, tallystick
store = tallystick.open(sys.argv[1])
store.append("doc/2", tallystick.NewEvent("doc.saved", {}))
print("appended", flush=True)
sys.stdin.readline()
store.close()
"""


class _Visit:
    """A process that opens the store for writing, appends one event, and closes the store on request."""

    def __init__(self, url: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", VISITOR, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "appended\n"

    def end(self) -> None:
        self._child.communicate("\n")
        assert self._child.returncode == 0


def _log_then_mark(patch: pytest.MonkeyPatch, url: str) -> None:
    """A writer has a write-ahead log when the reader reads that, and has closed when it reads the mark."""
    look_at_log = wal.inspect

    def during_a_visit(path: str) -> wal.WalContent:
        patch.undo()
        visit = _Visit(url)
        left = look_at_log(path)
        visit.end()
        return left

    patch.setattr(wal, "inspect", during_a_visit)


def _head_then_events(patch: pytest.MonkeyPatch, url: str) -> None:
    """A writer comes and goes between two reads of the end of the log."""
    quick_damage_in, named = survey.quick_damage_in, statements.named

    def before_a_visit(name: str) -> str:
        if name == "last_positions":
            patch.undo()
            _Visit(url).end()
        return named(name)

    def with_a_visit(connection: sqlite3.Connection) -> str | None:
        patch.setattr(statements, "named", before_a_visit)
        return quick_damage_in(connection)

    patch.setattr(survey, "quick_damage_in", with_a_visit)


def _immutable_then_gone(patch: pytest.MonkeyPatch, url: str) -> None:
    """The reader sees a mixture of pages: it reads the main file without locks while a writer changes it."""
    stray_log = opening_inspection._stray_log

    def torn(path: str, left: wal.WalContent, marked: mark.StoreMark | None) -> str | None:
        patch.undo()
        _Visit(url).end()
        assert stray_log(path, left, marked) is None
        raise translate.damage("database disk image is malformed")

    patch.setattr(opening_inspection, "_stray_log", torn)


@pytest.mark.parametrize("meeting", [_log_then_mark, _head_then_events, _immutable_then_gone])
def test_a_writer_that_comes_and_goes_is_not_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meeting: Callable[[pytest.MonkeyPatch, str], None]
) -> None:
    """EVT-06: a reader that meets a writer while it inspects reports and records no damage. Appends continue."""
    url = f"sqlite:{tmp_path}/log.db"
    with tallystick.open(url) as store:
        store.append("doc/1", tallystick.NewEvent("doc.saved", {}))
    meeting(monkeypatch, url)
    with tallystick.open(url, readonly=True) as store:
        assert store.holes() == []
        assert len(list(store.events())) == 2
    assert not (tmp_path / "log.db.damage").exists()
    with tallystick.open(url) as store:
        assert store.append("doc/1", tallystick.NewEvent("doc.saved", {})).position == 3


def test_no_writer_starts_while_damage_is_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EVT-06: damage counts only if the inspection finds it while no writer can come."""
    path = str(tmp_path / "log.db")
    with tallystick.open(f"sqlite:{path}") as store:
        store.append("doc/1", tallystick.NewEvent("doc.saved", {}))
    with sqlite3.connect(path) as raw:
        raw.execute("DROP TRIGGER events_are_not_deleted")
    raw.close()
    came: list[bool] = []
    look_at = store_file.inspect

    def noting(path: str, *, busy_ms: int) -> opening_inspection.OpeningInspection:
        code = "import sys, tallystick; tallystick.open(sys.argv[1], busy_ms=50).close()"
        child = subprocess.run([sys.executable, "-c", code, f"sqlite:{path}"], capture_output=True, text=True)
        came.append("Busy" not in child.stderr)
        return look_at(path, busy_ms=busy_ms)

    monkeypatch.setattr(store_file, "inspect", noting)
    with tallystick.open(f"sqlite:{path}", readonly=True) as store:
        assert store.holes()
    assert came == [True, False]
