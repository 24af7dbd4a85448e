"""The files of an archive: put in place durably, counted and hashed, and removed when their time is up."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from tallystick import errors
from tallystick.pipeline import manifest
from tallystick.pipeline.manifest import DataFile, Manifest, Superseded

STAGING = "staging"
EVENTS, HEADS = "data", "heads"
GRACE_SECONDS = 3600
_CHUNK_BYTES = 4 << 20
_OURS = re.compile(r"\d{19}-\d{19}-[0-9a-f]{16}\.parquet")
_NS = 1_000_000_000


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Be the only one who changes an archive. The lock ends with the process; what an earlier run left staged goes."""
    for name in ("", EVENTS, HEADS):
        (directory / name).mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.ArchiveLocked(path=str(directory)) from None
        shutil.rmtree(directory / STAGING, ignore_errors=True)
        yield
        shutil.rmtree(directory / STAGING, ignore_errors=True)


def staged_files(folder: Path) -> list[Path]:
    """The Parquet files that Spark wrote below a folder."""
    return sorted(folder.rglob("part-*.parquet"))


def rows_in(path: Path) -> int:
    """How many rows a Parquet file has."""
    found: int = pq.read_metadata(path).num_rows
    return found


def positions_in(path: Path) -> tuple[int, int]:
    """The lowest and the highest position in a file, by its statistics."""
    metadata = pq.read_metadata(path)
    index = metadata.schema.names.index("position")
    ranges = [metadata.row_group(number).column(index).statistics for number in range(metadata.num_row_groups)]
    return min(item.min for item in ranges), max(item.max for item in ranges)


def shelve(directory: Path, folder: str, staged: Path, *, first: int, last: int) -> DataFile:
    """Move a staged file to its place, durably, under a name that says what it holds."""
    digest, size, rows = hash_of(staged), staged.stat().st_size, rows_in(staged)
    name = f"{folder}/{first:019d}-{last:019d}-{digest[:16]}.parquet"
    with staged.open("rb") as file:
        os.fsync(file.fileno())
    staged.rename(directory / name)
    manifest.sync_directory(directory / folder)
    return DataFile(name=name, sha256=digest, size=size, rows=rows)


def hash_of(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def superseded(files: list[DataFile], *, grace_seconds: float) -> list[Superseded]:
    """Files that are about to leave the archive."""
    removable = time.time_ns() + int(grace_seconds * _NS)
    return [Superseded(name=file.name, removable=removable) for file in files]


def hurried(items: list[Superseded], erased: list[int]) -> list[Superseded]:
    """The same files; those that a merge left and that may hold an erased payload have no time left."""

    def holds(name: str) -> bool:
        first, last, _ = name.rpartition("/")[2].split("-")
        return any(int(first) <= position <= int(last) for position in erased)

    return [msgspec.structs.replace(item, removable=0) if holds(item.name) else item for item in items]


def still_there(directory: Path, items: list[Superseded]) -> list[Superseded]:
    """Those whose files were not removed yet: the others need no mention any more."""
    return [item for item in items if (directory / item.name).exists()]


def sweep(directory: Path, kept: Manifest, *, grace_seconds: float) -> None:
    """Remove what left the archive and whose time is up, and what no manifest ever named (a killed run's).

    Files under other names, and folders, are not ours and stay.
    """
    now = time.time_ns()
    listed = {file.name for bucket in kept.buckets for file in (bucket.events, bucket.heads) if file is not None}
    waiting = [item for item in kept.superseded if item.removable > now and item.name not in listed]
    for item in kept.superseded:
        if item.removable <= now and item.name not in listed:
            (directory / item.name).unlink(missing_ok=True)
    known = listed | {item.name for item in waiting}
    for folder in (EVENTS, HEADS):
        for path in (directory / folder).iterdir():
            if not _OURS.fullmatch(path.name) or not path.is_file():
                continue  # somebody else's
            is_old = path.stat().st_mtime_ns < now - int(grace_seconds * _NS)
            if f"{folder}/{path.name}" not in known and is_old:
                path.unlink(missing_ok=True)
