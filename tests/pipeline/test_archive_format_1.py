"""An archive of format 1, from an earlier version, can be read. The first run that changes it makes it format 2."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import NewEvent, state
from tallystick.event.model import Event
from tallystick.pipeline.archive import manifest
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.compact import compact
from tallystick.pipeline.jobs.verify import verify
from tallystick.pipeline.whole_log import read_archive

Stored = Callable[[str], list[Event]]
RowsOf = Callable[[DataFrame], list[Event]]

GOLDEN = Path(__file__).parents[1] / "golden" / "archive-1.tar.gz"
NUMBER, THROUGH = 2, 32


class Killed(BaseException):
    """The process was killed."""


@pytest.fixture
def old(tmp_path: Path) -> tuple[str, Path]:
    """A log, and a complete archive of it in format 1."""
    with tarfile.open(GOLDEN) as packed:
        packed.extractall(tmp_path, filter="data")
    (tmp_path / "log" / "beside.db").unlink()  # of an older format too, which this version refuses
    return f"files:{tmp_path}/log", tmp_path / "archive"


def append(url: str) -> None:
    """Append an event, and erase a payload."""
    with tallystick.open(url) as store:
        store.append("order/o0", NewEvent("order.placed", {"cents": 1}))
        state.erase(store, "order/o2", 1, reason="asked")


def test_it_is_read_and_stays_as_it_is(
    spark: SparkSession, old: tuple[str, Path], stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-02: neither reading nor a run with nothing to do changes a file."""
    url, place = old
    before = (place / manifest.NAME).read_bytes()
    assert rows_of(read_archive(spark, place)) == stored(url)
    assert verify(spark, url, place).problems == []
    assert archive(spark, url, place).events == 0
    assert (place / manifest.NAME).read_bytes() == before
    assert not (place / manifest.FOLDER).exists()


def test_it_grows_and_earlier_versions_refuse_it_then(
    spark: SparkSession, old: tuple[str, Path], stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-02: the next run continues from it, and leaves a `manifest.json` that names format 2, with a checksum."""
    url, place = old
    before = (place / manifest.NAME).read_bytes()
    append(url)
    done = archive(spark, url, place)
    assert (done.events, done.erased) == (len(stored(url)) - THROUGH, 1)
    assert rows_of(read_archive(spark, place)) == stored(url)
    body, digest = (place / manifest.NAME).read_bytes().splitlines()
    assert msgspec.json.decode(body)["format"] == 2
    assert hashlib.sha256(body).hexdigest().encode() == digest
    found = manifest.load(place)
    assert (found.number, found.previous) == (NUMBER + 1, hashlib.sha256(before).hexdigest())
    assert compact(spark, place).buckets_after == 1
    assert rows_of(read_archive(spark, place)) == stored(url)
    assert verify(spark, url, place).problems == []


def test_a_copy_in_a_store_grows_there(
    spark: SparkSession, old: tuple[str, Path], bucket_url: str, stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-02: an archive of format 1 that was copied into a bucket can be continued there."""
    from tallystick.pipeline.storage.port import storage_at

    url, place = old
    there = storage_at(bucket_url)
    for path in place.rglob("*"):
        if path.is_file():
            there.put(str(path.relative_to(place)), path.read_bytes())
    append(url)
    assert archive(spark, url, bucket_url).events == len(stored(url)) - THROUGH
    assert rows_of(read_archive(spark, bucket_url)) == stored(url)
    assert verify(spark, url, bucket_url).problems == []


def test_killed_at_every_step_it_is_one_or_the_other(old: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-02: killed at each change of a file in turn, one manifest is in force: the old one or the next."""
    _, place = old
    before = manifest.load(place)
    left = [0]

    def counted(change: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return change(*arguments, **options)

        return run

    for owner, name in ((os, "link"), (Path, "rename"), (Path, "unlink"), (os, "fsync")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    kills = 0
    while manifest.load(place).number == before.number:
        kills += 1
        left[0] = kills
        try:
            manifest.save(place, before)
        except Killed:
            left[0] = 0
            found = manifest.load(place)
            assert found.buckets == before.buckets
            assert found.number in (NUMBER, NUMBER + 1)
    assert kills >= 8
    assert manifest.load(place).previous == hashlib.sha256((place / manifest.name_of(NUMBER)).read_bytes()).hexdigest()
