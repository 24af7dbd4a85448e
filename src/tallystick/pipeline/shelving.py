"""The files of an archive: put in place durably, counted and hashed, and removed when their time is up."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from tallystick import errors
from tallystick.pipeline.manifest import DataFile, Manifest, Superseded

STAGING = "staging"
EVENTS, HEADS = "data", "heads"
GRACE_SECONDS = 3600
_CHUNK_BYTES = 4 << 20
_OURS = re.compile(r"\d{19}-\d{19}-[0-9a-f]{16}\.parquet")
_STAGED = re.compile(r"(events|heads|part)-[0-9a-zA-Z.-]+\.parquet")
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
        _clear_staging(directory)
        yield
        _clear_staging(directory)


def rows_in(path: Path) -> int:
    """How many rows a Parquet file has."""
    found: int = pq.read_metadata(path).num_rows
    return found


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a task wrote: durable, and hashed where it was written."""

    path: str
    sha256: str
    size: int
    rows: int


def written(path: Path, *, rows: int) -> Staged:
    """What there is to say of a file that was just written; runs in a worker."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    assert rows_in(path) == rows, "what was counted is what was written"
    return Staged(path=str(path), sha256=hash_of(path), size=path.stat().st_size, rows=rows)


def shelve(directory: Path, folder: str, staged: Staged, *, first: int, last: int) -> DataFile:
    """Move a staged file to its place, under a name that says what it holds; `manifest.exchange` makes that durable."""
    name = f"{folder}/{first:019d}-{last:019d}-{staged.sha256[:16]}.parquet"
    Path(staged.path).rename(directory / name)
    return DataFile(name=name, sha256=staged.sha256, size=staged.size, rows=staged.rows)


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
    """The files; those that a merge left and that may hold an erased payload have no time left. `erased` is sorted."""

    def holds(name: str) -> bool:
        first, last, _ = name.rpartition("/")[2].split("-")
        return bisect_left(erased, int(first)) < bisect_right(erased, int(last))

    return [msgspec.structs.replace(item, removable=0) if holds(item.name) else item for item in items]


def still_there(directory: Path, items: list[Superseded]) -> list[Superseded]:
    """Those whose files were not removed yet: the others need no mention any more."""
    return [item for item in items if (directory / item.name).exists()]


def sweep(directory: Path, kept: Manifest) -> None:
    """Remove what left the archive and whose time is up, and what no manifest ever named: a killed run's.

    Files under other names, and folders, are not ours and stay.
    """
    now = time.time_ns()
    listed = _listed(kept)
    for item in kept.superseded:
        if item.removable <= now and item.name not in listed:
            (directory / item.name).unlink(missing_ok=True)
    for name in unlisted(directory, kept):
        (directory / name).unlink(missing_ok=True)


def unlisted(directory: Path, kept: Manifest) -> list[str]:
    """The files of ours that no manifest names: a run left them that was killed. Nobody reads them."""
    known = _listed(kept) | {item.name for item in kept.superseded}
    found = []
    for folder in (EVENTS, HEADS):
        there = (directory / folder).iterdir() if (directory / folder).is_dir() else ()
        ours = [path for path in there if _OURS.fullmatch(path.name) and path.is_file()]
        found += [name for path in ours if (name := f"{folder}/{path.name}") not in known]
    return sorted(found + [str(path.relative_to(directory)) for path in _staged(directory)])


def _listed(kept: Manifest) -> set[str]:
    return {file.name for bucket in kept.buckets for file in (bucket.events, bucket.heads) if file is not None}


def _staged(directory: Path) -> list[Path]:
    """What a run has staged; runs of earlier versions did it in folders of their own."""
    return [path for path in (directory / STAGING).rglob("*.parquet") if _STAGED.fullmatch(path.name)]


def _clear_staging(directory: Path) -> None:
    """Remove what a run left staged, and the folders that are empty then."""
    for path in _staged(directory):
        path.unlink(missing_ok=True)
    folders = [path for path in (directory / STAGING).rglob("*") if path.is_dir()]
    for folder in [*sorted(folders, reverse=True), directory / STAGING]:
        with suppress(OSError):  # it holds something of somebody else's, or is not there
            folder.rmdir()
