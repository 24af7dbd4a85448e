"""The archive: every event once, nothing lost whatever happens to a run, and one table together with the live log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import errors, state
from tallystick.event.model import Event
from tallystick.pipeline.archive import archive_files, manifest
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.whole_log import read_archive, whole_log

MakeLog = Callable[..., None]
Stored = Callable[[str], list[Event]]
RowsOf = Callable[[DataFrame], list[Event]]


class Killed(BaseException):
    """The process was killed."""


def require_hashes(place: Path) -> None:
    """Every file that the manifest names exists and has its hash."""
    for bucket in manifest.load(place).buckets:
        for file in (bucket.events, bucket.heads):
            assert file is None or archive_files.hash_of(place / file.name) == file.sha256


def test_archive_and_tail_are_the_log(
    spark: SparkSession, url: str, make_log: MakeLog, tmp_path: Path, stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-02: runs add new events once; archive and live tail together are the log."""
    make_log(url, events=50)
    first = archive(spark, url, tmp_path / "archive", bucket_events=20)
    assert (first.events, first.buckets, first.through) == (50, 3, 50)
    assert archive(spark, url, tmp_path / "archive").events == 0
    make_log(url, events=15, seed=2)
    assert archive(spark, url, tmp_path / "archive", until=60, bucket_events=20).events == 10
    assert rows_of(read_archive(spark, tmp_path / "archive")) == stored(url)[:60]
    assert rows_of(whole_log(url, tmp_path / "archive").table(spark)) == stored(url)
    assert rows_of(whole_log(url, tmp_path / "archive", until=33).table(spark)) == stored(url)[:33]
    found = manifest.load(tmp_path / "archive")
    assert [(bucket.first, bucket.last) for bucket in found.buckets] == [(1, 20), (21, 40), (41, 50), (51, 60)]
    require_hashes(tmp_path / "archive")


def test_erasure_reaches_the_archive(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path, stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-02: an erased payload disappears from the table at once, and from every file with the next run."""
    place = tmp_path / "archive"
    make_log(files_url, events=40)
    archive(spark, files_url, place, bucket_events=20)
    secret = next(event for event in stored(files_url) if event.stream == "order/o1" and event.seq == 2)
    before = manifest.load(place).bucket_of(secret.position)
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 2, reason="asked")
    assert rows_of(whole_log(files_url, place).table(spark)) == stored(files_url)
    assert archive(spark, files_url, place, bucket_events=20).erased == 1
    after = manifest.load(place).bucket_of(secret.position)
    assert before is not None
    assert after is not None
    assert after.events != before.events
    assert before.blocks == after.blocks
    assert not (place / before.events.name).exists() if before.events else False
    assert rows_of(read_archive(spark, place)) == stored(files_url)
    require_hashes(place)


def test_what_was_archived_survives_pruning(
    spark: SparkSession,
    files_url: str,
    make_log: MakeLog,
    tmp_path: Path,
    stored: Stored,
    rows_of: RowsOf,
    prune: Callable[..., None],
) -> None:
    """PIPE-02, PIPE-06: retention may prune events that the archive covers; other events are refused by name."""
    place = tmp_path / "archive"
    make_log(files_url, events=40)
    complete = stored(files_url)
    archive(spark, files_url, place, bucket_events=20)
    prune(files_url, "order/o1", 3)
    assert rows_of(whole_log(files_url, place).table(spark))[:40] == complete
    make_log(files_url, events=20, seed=2)
    prune(files_url, "order/o2", max(event.seq for event in stored(files_url) if event.stream == "order/o2"))
    with pytest.raises(errors.HistoryPruned):
        whole_log(files_url, place)
    archive(spark, files_url, place, bucket_events=20)
    with pytest.raises(errors.HistoryPruned):
        whole_log(files_url, place)
    assert rows_of(whole_log(files_url, place, over_pruned=True).table(spark))[:40] == complete


def test_an_archive_belongs_to_one_log(spark: SparkSession, make_log: MakeLog, tmp_path: Path) -> None:
    """PIPE-02: another log, another directory, a damaged manifest: each is refused by name."""
    one, other, place = f"files:{tmp_path}/one", f"files:{tmp_path}/other", tmp_path / "archive"
    make_log(one, events=5)
    make_log(other, events=5)
    archive(spark, one, place)
    with pytest.raises(errors.WrongArchive):
        archive(spark, other, place)
    with pytest.raises(errors.ArchiveNotFound):
        whole_log(one, tmp_path / "elsewhere")
    with archive_files.locked(place), pytest.raises(errors.ArchiveLocked):
        archive(spark, one, place)
    path = place / manifest.name_of(1)
    path.write_bytes(path.read_bytes().replace(b'"through":5', b'"through":4'))
    with pytest.raises(errors.ArchiveDamaged):
        whole_log(one, place)


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Ends the process, as the archive sees it, at the n-th change of a file or a name."""
    left = [-1]

    def counted(change: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return change(*arguments, **options)

        return run

    monkeypatch.setattr(os, "link", counted(os.link))
    monkeypatch.setattr(Path, "rename", counted(Path.rename))
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
    monkeypatch.setattr(os, "fsync", counted(os.fsync))

    def set_(number: int) -> None:
        left[0] = number

    yield set_
    left[0] = -1


def test_killed_anywhere_and_run_again(
    spark: SparkSession,
    files_url: str,
    make_log: MakeLog,
    tmp_path: Path,
    stored: Stored,
    rows_of: RowsOf,
    kill_at: Callable[[int], None],
) -> None:
    """PIPE-02: killed at each change of a file in turn: listed files are whole, and the next run does the rest."""
    place = tmp_path / "archive"
    make_log(files_url, events=30)
    archive(spark, files_url, place, bucket_events=30)
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 1, reason="asked")
    make_log(files_url, events=15, seed=2)
    kills = 0
    for number in range(1, 100):
        kill_at(number)
        try:
            archive(spark, files_url, place, bucket_events=30)
        except Killed:
            kills += 1
            kill_at(-1)
            require_hashes(place)
        else:
            break
    kill_at(-1)
    assert kills >= 8
    assert rows_of(read_archive(spark, place)) == stored(files_url)
    assert rows_of(whole_log(files_url, place).table(spark)) == stored(files_url)
    require_hashes(place)
    listed = {file.name for item in manifest.load(place).buckets for file in (item.events, item.heads) if file}
    archive(spark, files_url, place, grace_seconds=0)
    assert {f"{path.parent.name}/{path.name}" for path in place.glob("*/*.parquet")} == listed
