"""The manifest of an archive: which files it is made of, and what they must hold. docs/formats/archive.md has the form.

    manifest.json    this document, replaced by rename
    data/            FIRST-LAST-HASH.parquet: the events of one bucket, ascending by position
    heads/           FIRST-LAST-HASH.parquet: where each stream ended that the bucket touches
    staging/         what a run is writing; nobody reads it

A bucket is a range of positions. It is closed when it is written, and its rows never change; only an erasure or a
merge puts another file in its place. Readers go by the manifest, never by what lies in a directory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tallystick import errors

FORMAT = 1
NAME = "manifest.json"
BLOCK_POSITIONS = 10_000


class DataFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the archive, by its path from the archive's directory."""

    name: str
    sha256: str
    size: int
    rows: int


class Block(msgspec.Struct, frozen=True, array_like=True):
    """Up to 10,000 positions: SHA-256 over the lines `position ‖ link` of its rows, each ended by a newline."""

    number: int
    rows: int
    digest: str


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """The positions from `first` to `last`. `lacking`: some had been pruned before they could be archived."""

    first: int
    last: int
    rows: int
    events: DataFile | None
    heads: DataFile | None
    blocks: list[Block]
    lacking: bool = False


class Superseded(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is no longer part of the archive, and from when on it may be removed (ns)."""

    name: str
    removable: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The whole archive. `link` is that of the event at `link_position`, the last one archived."""

    store_id: str
    format: int = FORMAT
    number: int = 0
    previous: str = ""
    through: int = 0
    link_position: int = 0
    link: str = ""
    buckets: list[Bucket] = []
    superseded: list[Superseded] = []

    @property
    def rows(self) -> int:
        """How many events it holds."""
        return sum(bucket.rows for bucket in self.buckets)

    @property
    def size(self) -> int:
        """The bytes of the files with events."""
        return sum(bucket.events.size for bucket in self.buckets if bucket.events is not None)

    @property
    def blocks(self) -> list[Block]:
        """The blocks of all buckets, in order. Neither a merge nor an erasure changes them; runs add to them."""
        return [block for bucket in self.buckets for block in bucket.blocks]

    def bucket_of(self, position: int) -> Bucket | None:
        """The bucket that holds a position."""
        return next((bucket for bucket in self.buckets if bucket.first <= position <= bucket.last), None)


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """What a log has on record of its archive: up to `through` it had so many blocks, with this hash over them."""

    through: int
    blocks: int
    root: str


def witness(manifest: Manifest) -> Witness:
    """What there is to remember of an archive."""
    found = roots(manifest)
    return Witness(through=manifest.through, blocks=len(found) - 1, root=found[-1])


def roots(manifest: Manifest) -> list[str]:
    """SHA-256 over the lines `number`, `rows`, `digest` of the first n blocks, for every n from 0 on."""
    digest = hashlib.sha256()
    found = [digest.hexdigest()]
    for block in manifest.blocks:
        digest.update(f"{block.number}\n{block.rows}\n{block.digest}\n".encode())
        found.append(digest.hexdigest())
    return found


def load(directory: Path) -> Manifest:
    """The manifest of an archive, checked against itself."""
    found = read(directory)
    if (reason := next(faults(found), None)) is not None:
        raise errors.ArchiveDamaged(path=str(directory), reason=reason)
    return found


def read(directory: Path) -> Manifest:
    """The manifest of an archive as it is: only its checksum and its form are looked at."""
    return _decoded(directory, _read(directory))


def faults(manifest: Manifest) -> Iterator[str]:
    """What is wrong with a manifest by itself: buckets join up from the first position to the last, and rows add up."""
    after = 0
    for bucket in manifest.buckets:
        if bucket.first != after + 1 or bucket.last < bucket.first:
            yield f"the bucket that should begin at position {after + 1} goes from {bucket.first} to {bucket.last}"
        rows = 0 if bucket.events is None else bucket.events.rows
        if not bucket.rows == rows == sum(block.rows for block in bucket.blocks):
            yield f"the bucket from position {bucket.first} has {bucket.rows} rows, its file or its blocks others"
        after = bucket.last
    if after != manifest.through:
        yield f"its buckets go to position {after}, not to {manifest.through}"


def _read(directory: Path) -> bytes:
    try:
        return (directory / NAME).read_bytes()
    except FileNotFoundError:
        raise errors.ArchiveNotFound(path=str(directory)) from None


def _decoded(directory: Path, data: bytes) -> Manifest:
    body, _, digest = data.rstrip(b"\n").rpartition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise errors.ArchiveDamaged(path=str(directory), reason="the manifest does not have its checksum")
    found = msgspec.json.decode(body)
    if found.get("format", 0) > FORMAT:
        raise errors.NewerFormat(path=str(directory / NAME), found=found["format"], known=FORMAT)
    return msgspec.convert(found, Manifest)


def load_or_begin(directory: Path, store_id: bytes) -> Manifest:
    """The manifest of an archive, or that of one which is about to begin."""
    try:
        return load(directory)
    except errors.ArchiveNotFound:
        return Manifest(store_id=store_id.hex())


def exchange(directory: Path, before: Manifest, after: Manifest) -> Manifest:
    """Put a manifest in place of the one before, if it has all of its rows, and its own are accounted for."""
    reason = next(faults(after), None)
    if reason is None and after.blocks[: len(before.blocks)] != before.blocks:
        reason = "the next manifest does not have the rows of this one"
    if reason is not None:
        raise errors.ArchiveDamaged(path=str(directory), reason=reason)
    for folder in ("data", "heads"):
        sync_directory(directory / folder)
    return save(directory, after)


def save(directory: Path, manifest: Manifest) -> Manifest:
    """Put the next manifest in place of the one before, in one step; everything it names is on disk already."""
    before = directory / NAME
    digest = hashlib.sha256(before.read_bytes()).hexdigest() if before.exists() else ""
    following = msgspec.structs.replace(manifest, number=manifest.number + 1, previous=digest)
    body = msgspec.json.encode(following)
    staged = directory / (NAME + ".tmp")
    with staged.open("wb") as file:
        file.write(body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    staged.rename(before)
    sync_directory(directory)
    return following


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
