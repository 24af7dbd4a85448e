"""A table while others change it or its log: runs that lose a race, and a log that is pruned meanwhile."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import errors, state
from tallystick.event.model import Event
from tallystick.pipeline.lake import events
from tallystick.pipeline.lake.check import verify
from tallystick.pipeline.lake.directory_catalog import DirectoryCatalog
from tallystick.pipeline.lake.events import append
from tallystick.pipeline.lake.table import FORMATS, table_at
from tallystick.pipeline.storage.port import Taken, storage_at
from tests.pipeline.lake_tables import events_of

MakeLog = Callable[..., None]
Stored = Callable[[str], list[Event]]
Prune = Callable[..., None]


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each format."""
    return str(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the table is."""
    return tmp_path / "table"


def test_what_is_pruned_while_a_run_reads_is_not_left_out(
    files_url: str, make_log: MakeLog, prune: Prune, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-02: retention prunes events between two commits of a run: refused, so the table never lacks them."""
    make_log(files_url, events=60, streams=1)
    append(files_url, place, kind)
    make_log(files_url, events=60, streams=1, seed=2)
    real, pruned = events.rows_of, []

    def pruning(source: Any, part: Any, *given: Any, **more: Any) -> Any:
        if part.after >= 80 and not pruned:
            pruned.append(True)
            prune(files_url, "order/o0", 95)
        return real(source, part, *given, **more)

    monkeypatch.setattr(events, "rows_of", pruning)
    with pytest.raises(errors.HistoryPruned):
        append(files_url, place, commit_events=20)
    assert verify(files_url, place).problems == []
    assert len(events_of(place, kind)) == 80


def test_a_run_that_is_overtaken_goes_on_from_there(
    files_url: str, make_log: MakeLog, stored: Stored, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-02: another run commits after a run has read the mark: every event is in the table once."""
    make_log(files_url, events=40)
    append(files_url, place, kind, commit_events=10)
    make_log(files_url, events=40, seed=2)
    real, others = events.rows_of, []

    def overtaken(*given: Any) -> Any:
        if not others:
            others.append(None)
            others.append(append(files_url, place, commit_events=25).events)
        return real(*given)

    monkeypatch.setattr(events, "rows_of", overtaken)
    done = append(files_url, place, commit_events=10)
    assert (done.events, others[1]) == (0, 40)
    assert events_of(place, kind) == stored(files_url)
    assert verify(files_url, place).problems == []


def test_a_table_that_was_told_to_try_again_does_not(
    files_url: str, make_log: MakeLog, stored: Stored, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-02: another tool sets the property that lets the library retry on a version that was not read."""
    make_log(files_url, events=40)
    append(files_url, place, "iceberg")
    with DirectoryCatalog(storage_at(place)).load_table().transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "2", "commit.retry.min-wait-ms": "1"})
    make_log(files_url, events=40, seed=2)
    real, others = events.rows_of, []

    def overtaken(*given: Any, **more: Any) -> Any:
        if not others:
            others.append(None)
            append(files_url, place, commit_events=25)
        return real(*given, **more)

    monkeypatch.setattr(events, "rows_of", overtaken)
    append(files_url, place, commit_events=10)
    assert events_of(place, "iceberg") == stored(files_url)
    assert verify(files_url, place).problems == []


def test_an_erasure_that_is_overtaken_is_done(
    files_url: str, make_log: MakeLog, stored: Stored, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-02: another run appends while one is about to remove a payload: both changes are kept."""
    make_log(files_url, events=40)
    append(files_url, place, kind)
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 1, reason="asked")
    table = type(table_at(place))
    real, others = table.erase, []

    def overtaken(self: Any, positions: Any) -> int:
        if not others:
            others.append(None)
            others.append(append(files_url, place).erased)
        done: int = real(self, positions)
        return done

    monkeypatch.setattr(table, "erase", overtaken)
    append(files_url, place)
    assert others[1] == 1
    assert events_of(place, kind) == stored(files_url)
    assert verify(files_url, place).problems == []


def test_a_removal_that_is_overtaken_removes_nothing_that_is_needed(
    files_url: str, make_log: MakeLog, stored: Stored, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-02: another run appends while one removes old files: it begins again from the newest version."""
    make_log(files_url, events=20)
    append(files_url, place, kind)
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 1, reason="asked")
    append(files_url, place)
    table = type(table_at(place))
    real, others = table.forget, []

    def overtaken(self: Any) -> int:
        if not others:
            others.append(None)
            make_log(files_url, events=20, seed=2)
            append(files_url, place)
        done: int = real(self)
        return done

    monkeypatch.setattr(table, "forget", overtaken)
    assert append(files_url, place, forget=True).left == 0
    assert events_of(place, kind) == stored(files_url)
    assert verify(files_url, place).problems == []


def test_what_a_later_run_is_writing_stays(
    files_url: str, make_log: MakeLog, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-02: a file that appears after the commit of `forget` is kept: its run may still commit."""
    make_log(files_url, events=20)
    append(files_url, place, kind)
    table = table_at(place)
    table.mark()
    name = f"00000-0-{uuid.uuid4()}.parquet" if kind == "iceberg" else f"part-00000-{uuid.uuid4()}-c000.parquet"
    path = place / "data" / name if kind == "iceberg" else place / name
    real = table.mark

    def writing() -> Any:
        path.write_bytes(b"on its way")
        return real()

    monkeypatch.setattr(table, "mark", writing)
    assert table.forget() == 0
    assert path.exists()
    assert table.left() == 1
    assert append(files_url, place, forget=True).removed == 1


def test_a_run_that_always_comes_late_says_so(
    files_url: str, make_log: MakeLog, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-02: a run that loses five times in a row ends with `TableBusy`."""
    make_log(files_url, events=5)
    append(files_url, place, kind)
    make_log(files_url, events=5, seed=2)

    def late(*_: Any, **__: Any) -> None:
        raise Taken

    monkeypatch.setattr(type(table_at(place)), "append", late)
    with pytest.raises(errors.TableBusy):
        append(files_url, place)
