"""The files of an archive for other tools that read Parquet: DuckDB, Polars, pyarrow. No Java, no Spark session.

    duckdb.read_parquet(files("ARCHIVE"))    polars.scan_parquet(files("ARCHIVE"))    dataset.dataset(files("ARCHIVE"))

Each file is checked as the jobs check it before its name is returned. The statistics of positions are checked too,
since these tools use them. Do not use a glob over `data/`: it may match files that a merge or a killed run left there.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tallystick import errors
from tallystick.pipeline.archive import archive_files, bucket_reader, manifest
from tallystick.pipeline.archive.bucket_reader import BucketFile
from tallystick.pipeline.archive.manifest import Bucket, DataFile
from tallystick.pipeline.storage.directory import DirectoryStorage
from tallystick.pipeline.storage.port import Storage, storage_at
from tallystick.pipeline.verify.bucket_check import wrong_statistics


def files(
    directory: str | Path | Storage,
    *,
    after: int = 0,
    until: int | None = None,
    streams: Sequence[str] = (),
    copies: str | Path | None = None,
) -> list[str]:
    """The paths of the files that may hold such events, in order of position. They hold others too, so filter again.

    `after` is an exclusive position, `until` an inclusive one. `copies` is a directory to copy the files to; it is
    required for an archive in an object store. `ArchiveDamaged` if a file is not as it was archived.
    """
    storage = storage_at(directory)
    if copies is None and not isinstance(storage, DirectoryStorage):
        must = "a directory for copies: other tools do not check what they read from an object store"
        raise errors.InvalidValue(what="copies", value="None", must=must)
    chosen = [bucket for bucket in manifest.load(storage).buckets if _may_hold(storage, bucket, after, until, streams)]
    found = [file for bucket in chosen if (file := bucket_reader.file_of(bucket)) is not None]
    if copies is None:
        return [str(Path(str(storage)) / _checked(storage, file).name) for file in found]
    target = DirectoryStorage(Path(copies).absolute())
    return [str(_copied(storage, target, file)) for file in found]


def _may_hold(storage: Storage, bucket: Bucket, after: int, until: int | None, streams: Sequence[str]) -> bool:
    """Whether a bucket has positions in the range, and events of one of the streams."""
    if bucket.last <= after or (until is not None and bucket.first > until):
        return False
    if not streams or bucket.heads is None:
        return True
    wanted = pa.array(list(streams), pa.string())
    return bool(pc.any(pc.is_in(_streams(storage, bucket.heads), wanted)).as_py())


def _streams(storage: Storage, heads: DataFile) -> pa.ChunkedArray:
    """The streams of a bucket, from the file with their ends; `ArchiveDamaged` if that file was changed."""
    with suppress(FileNotFoundError), storage.opened(heads.name) as path:
        if archive_files.hash_of(path) == heads.sha256:
            return pq.read_table(path, columns=["stream"], use_threads=False)["stream"]
    raise errors.ArchiveDamaged(path=str(storage), reason=f"{heads.name} is not the one that was archived")


def _checked(storage: Storage, file: BucketFile) -> BucketFile:
    """The file, if it is as it was archived and its statistics are right."""
    bucket_reader.require_file(storage, file)
    with storage.opened(file.name) as path:
        if next(wrong_statistics(path), None) is not None:
            reason = f"{Path(file.name).name} has statistics that are not those of its rows"
            raise errors.ArchiveDamaged(path=str(storage), reason=reason)
    return file


def _copied(storage: Storage, target: DirectoryStorage, file: BucketFile) -> Path:
    """A checked copy of a file; a copy that exists already is checked again."""
    path = target.directory / file.name
    if not path.exists() or archive_files.hash_of(path) != file.sha256:
        with target.drafted() as draft, bucket_reader.damage_errors(storage, file), storage.opened(file.name) as source:
            shutil.copyfile(source, draft)
            target.keep(draft, file.name)
    _checked(target, file)
    return path
