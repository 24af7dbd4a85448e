"""The files of an archive: written under their names, counted, hashed, and removed when nobody needs them."""

from __future__ import annotations

import hashlib
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from tallystick import errors
from tallystick.pipeline.archive import manifest
from tallystick.pipeline.archive.manifest import DataFile, Manifest, Superseded
from tallystick.pipeline.storage.directory import STAGING, DirectoryStorage
from tallystick.pipeline.storage.port import Done, Storage, Taken, retry_taken, storage_at

__all__ = ["EVENTS", "GRACE_SECONDS", "HEADS", "STAGING"]

EVENTS, HEADS = "data", "heads"
GRACE_SECONDS = 3600
_CHUNK_BYTES = 4 << 20
_OWN_FILES = re.compile(r"(?:data|heads)/(\d{19})-(\d{19})-[0-9a-f]{16}(?:-([0-9a-f]{16}))?\.parquet")
_NS = 1_000_000_000


@contextmanager
def locked(storage: str | Path | Storage) -> Iterator[None]:
    """Keep other runs on this machine out, if the storage can do that."""
    with storage_at(storage).locked():
        yield


def retry_commit(storage: Storage, attempt: Callable[[], Done]) -> Done:
    """The result of a run that begins at the newest manifest; it begins again if another run commits first."""
    return retry_taken(attempt, busy=errors.ArchiveLocked(path=str(storage)))


def rows_in(path: Path) -> int:
    """The number of rows of a Parquet file."""
    found: int = pq.read_metadata(path).num_rows
    return found


class BucketFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Writes the files of one bucket, under names that say which positions they hold and which run wrote them."""

    storage: Storage
    run: str
    first: int
    last: int

    def put(self, folder: str, draft: Path, *, rows: int) -> DataFile:
        """Store a draft under its name. Its hash is that of the stored file, which is read back."""
        assert rows_in(draft) == rows, "the file has the rows that were counted"
        sha256, size = hash_of(draft), draft.stat().st_size
        name = f"{folder}/{self.first:019d}-{self.last:019d}-{sha256[:16]}-{self.run}.parquet"
        self.storage.keep(draft, name)
        with self.storage.opened(name) as path:
            if hash_of(path) != sha256:
                raise errors.ArchiveDamaged(path=str(self.storage), reason=f"{name} is not what was written there")
        return DataFile(name=name, sha256=sha256, size=size, rows=rows)


def hash_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def commit(storage: Storage, before: Manifest, after: Manifest, existing: frozenset[str], *, is_new: bool) -> Manifest:
    """Commit the next manifest, and remove the files that are no longer needed; `Taken` if another run was first.

    Files that no manifest names are removed only after a commit: no other run can commit them from then on.
    """
    if not is_new and not unnamed_files(existing, before):
        remove_old_files(storage, after, frozenset())
        return after
    try:
        after = manifest.commit(storage, before, after)
    except Taken:
        remove_run_files(storage, after.run)
        raise
    remove_old_files(storage, after, existing)
    return after


# --- what leaves an archive ------------------------------------------------------------------------------------------


def superseded_entries(files: list[DataFile], *, grace_seconds: float) -> list[Superseded]:
    """The entries of the manifest for files that leave the archive."""
    removable = time.time_ns() + int(grace_seconds * _NS)
    return [Superseded(name=file.name, removable=removable) for file in files]


def without_grace(items: list[Superseded], erased: list[int]) -> list[Superseded]:
    """The entries, without a grace period for files that may hold an erased payload. `erased` is in order."""

    def holds(name: str) -> bool:
        found = _OWN_FILES.fullmatch(name)
        return found is None or bisect_left(erased, int(found[1])) < bisect_right(erased, int(found[2]))

    return [msgspec.structs.replace(item, removable=0) if holds(item.name) else item for item in items]


def archive_file_names(storage: Storage) -> frozenset[str]:
    """The files whose names have the form that runs give. All other files and folders stay as they are."""
    return frozenset(name for folder in (EVENTS, HEADS) for name in storage.names(folder) if _OWN_FILES.fullmatch(name))


def existing_entries(existing: frozenset[str], items: list[Superseded]) -> list[Superseded]:
    """The entries whose files still exist: the others no longer belong in a manifest."""
    return [item for item in items if item.name in existing]


def unnamed_files(existing: Iterable[str], kept: Manifest) -> set[str]:
    """The files that the manifest does not name: of a run that was killed, or that has not committed yet."""
    return set(existing) - _listed(kept) - {item.name for item in kept.superseded}


def remove_old_files(storage: str | Path | Storage, kept: Manifest, existing: frozenset[str] | None = None) -> None:
    """Remove superseded files whose grace period is over, and files that `kept` lacks of `existing` and of its own run.

    `existing` was listed before `kept` was committed: a run that has written files since then may still commit them.
    """
    storage, now = storage_at(storage), time.time_ns()
    found = archive_file_names(storage)
    mine = {name for name in found if kept.run and run_of(name) == kept.run}
    gone = {item.name for item in kept.superseded if item.removable <= now} - _listed(kept)
    for name in sorted(gone | unnamed_files(mine | (found if existing is None else found & existing), kept)):
        storage.remove(name)


def remove_run_files(storage: Storage, run: str) -> None:
    """Remove the files of a run that lost the race to commit."""
    for name in archive_file_names(storage):
        if run_of(name) == run:
            storage.remove(name)


def run_of(name: str) -> str | None:
    """The run that wrote a file; None for a file of format 1."""
    found = _OWN_FILES.fullmatch(name)
    return found[3] if found is not None else None


def unlisted_files(storage: str | Path | Storage, kept: Manifest) -> list[str]:
    """The files that a killed run left: the manifest does not name them, and nobody reads them."""
    storage = storage_at(storage)
    staged = storage.staged() if isinstance(storage, DirectoryStorage) else []
    return sorted(unnamed_files(archive_file_names(storage), kept)) + staged


def _listed(kept: Manifest) -> set[str]:
    return {file.name for bucket in kept.buckets for file in (bucket.events, bucket.heads) if file is not None}
