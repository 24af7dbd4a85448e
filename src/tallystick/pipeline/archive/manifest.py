"""The manifest of an archive: which files the archive consists of, and which manifest is in force.

    STORAGE/
    manifest.json    that the archive is of format 2; or, of format 1, the manifest itself
    manifests/       NUMBER.json: one line of JSON, and its SHA-256; the highest number is in force
    data/            FIRST-LAST-HASH-RUN.parquet: the events of one bucket, ascending by position
    heads/           FIRST-LAST-HASH-RUN.parquet: where each stream ended that the bucket touches
    staging/         in directories: what a run is writing; nobody reads it

A bucket is a range of positions. It is closed when it is written, and its rows never change; only an erasure or a
merge replaces its file. Readers follow the manifest, never a listing of a folder.

A run commits by creating the manifest of the next number (`Storage.put_new`). Of two runs that began at the same
manifest, the second gets `Taken`. So a number must never become free again: old manifests are emptied, not removed.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tallystick import errors
from tallystick.pipeline.storage.port import Storage, Taken, require_conditional_writes, storage_at

FORMAT = 2
NAME = "manifest.json"  # format 1 has the manifest here, and versions that know only format 1 look for it here
FOLDER = "manifests"
KEPT = 10
_FILE = re.compile(
    r"(?:data|heads)/[\w.-]+\.parquet"
)  # no name leads out of the archive, or out of a folder with copies
_NUMBERED = re.compile(FOLDER + r"/(\d{19})\.json")
_EMPTIED = b"emptied\n"
_TRIES = 5
_FIRST_FORMAT = 1
BLOCK_POSITIONS = 10_000


class DataFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the archive; `name` is its path within the archive."""

    name: str
    sha256: str
    size: int
    rows: int


class Block(msgspec.Struct, frozen=True, array_like=True):
    """The rows of 10,000 positions: `digest` is SHA-256 over their lines `position ‖ link`, each with a newline."""

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
    """A file that is no longer part of the archive, and the time (ns) from which it may be removed."""

    name: str
    removable: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The whole archive. `link` is the link of the event at `link_position`, the last one archived.

    `run` wrote the newest files. `commit` is random, so that no two commits have the same bytes.
    """

    store_id: str
    format: int = FORMAT
    run: str = ""
    commit: str = ""
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
        """The total size of the files with events, in bytes."""
        return sum(bucket.events.size for bucket in self.buckets if bucket.events is not None)

    @property
    def blocks(self) -> list[Block]:
        """The blocks of all buckets, in order. Merges and erasures do not change them; runs append to them."""
        return [block for bucket in self.buckets for block in bucket.blocks]

    def bucket_of(self, position: int) -> Bucket | None:
        """The bucket that holds a position."""
        return next((bucket for bucket in self.buckets if bucket.first <= position <= bucket.last), None)


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """What a log records of its archive: up to position `through` it had so many blocks, with this hash over them."""

    through: int
    blocks: int
    root: str


def witness(manifest: Manifest) -> Witness:
    """The witness of an archive as it is."""
    found = roots(manifest)
    return Witness(through=manifest.through, blocks=len(found) - 1, root=found[-1])


def roots(manifest: Manifest) -> list[str]:
    """For every n from 0 on: SHA-256 over the lines `number`, `rows`, `digest` of the first n blocks."""
    digest = hashlib.sha256()
    found = [digest.hexdigest()]
    for block in manifest.blocks:
        digest.update(f"{block.number}\n{block.rows}\n{block.digest}\n".encode())
        found.append(digest.hexdigest())
    return found


def load(storage: str | Path | Storage) -> Manifest:
    """The newest manifest of an archive; `ArchiveDamaged` if it contradicts itself."""
    found = read(storage)
    if (reason := next(faults(found), None)) is not None:
        raise errors.ArchiveDamaged(path=str(storage), reason=reason)
    return found


def read(storage: str | Path | Storage) -> Manifest:
    """The newest manifest of an archive; only its checksum and its format are checked."""
    storage = storage_at(storage)
    return _decoded(storage, _newest(storage))


def faults(manifest: Manifest) -> Iterator[str]:
    """Where a manifest contradicts itself: its buckets must join up from first to last, and its rows must add up."""
    after = 0
    for bucket in manifest.buckets:
        if bucket.first != after + 1 or bucket.last < bucket.first:
            yield f"the bucket that must begin at position {after + 1} goes from {bucket.first} to {bucket.last}"
        rows = 0 if bucket.events is None else bucket.events.rows
        if not bucket.rows == rows == sum(block.rows for block in bucket.blocks):
            yield f"the bucket from position {bucket.first} has {bucket.rows} rows, its file or blocks have others"
        for file in (bucket.events, bucket.heads):
            if file is not None and not _FILE.fullmatch(file.name):
                yield f"the bucket from position {bucket.first} names {file.name!r}, which is not a file of an archive"
        after = bucket.last
    if after != manifest.through:
        yield f"its buckets go to position {after}, not to {manifest.through}"


def load_or_begin(storage: Storage, store_id: bytes) -> Manifest:
    """The manifest of an archive, or an empty one if there is no archive yet."""
    try:
        return load(storage)
    except errors.ArchiveNotFound:
        return Manifest(store_id=store_id.hex())


# --- reading ---------------------------------------------------------------------------------------------------------


def _newest(storage: Storage) -> bytes:
    """The manifest in force. Several runs may commit between listing the numbers and reading the file."""
    marker = _marker(storage)
    if marker is not None and _format_of(storage, marker) <= _FIRST_FORMAT:
        return marker
    for _ in range(_TRIES):
        numbers = _numbers(storage)
        if not numbers:
            raise errors.ArchiveNotFound(path=str(storage))
        try:
            found = storage.read(name_of(numbers[-1]))
        except FileNotFoundError:
            continue
        if found != _EMPTIED:
            return found
    raise errors.ArchiveDamaged(path=str(storage), reason=f"its newest manifests are missing after {numbers[-1]}")


def _marker(storage: Storage) -> bytes | None:
    try:
        return storage.read(NAME)
    except FileNotFoundError:
        return None


def _numbers(storage: Storage) -> list[int]:
    found = (_NUMBERED.fullmatch(name) for name in storage.names(FOLDER))
    return sorted(int(match[1]) for match in found if match is not None)


def name_of(number: int) -> str:
    """The name of the manifest of a number."""
    return f"{FOLDER}/{number:019d}.json"


def _body(storage: Storage, data: bytes) -> bytes:
    body, _, digest = data.rstrip(b"\n").rpartition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise errors.ArchiveDamaged(path=str(storage), reason="the manifest does not have its checksum")
    return body


def _format_of(storage: Storage, data: bytes) -> int:
    found: int = msgspec.json.decode(_body(storage, data)).get("format", 0)
    if found > FORMAT:
        raise errors.NewerFormat(path=str(storage), found=found, known=FORMAT)
    return found


def _decoded(storage: Storage, data: bytes) -> Manifest:
    _format_of(storage, data)
    return msgspec.json.decode(_body(storage, data), type=Manifest)


# --- writing ---------------------------------------------------------------------------------------------------------


def commit(storage: str | Path | Storage, before: Manifest, after: Manifest) -> Manifest:
    """Commit a manifest, if it does not contradict itself and has all rows of the one before."""
    reason = next(faults(after), None)
    if reason is None and after.blocks[: len(before.blocks)] != before.blocks:
        reason = "the next manifest does not have the rows of this one"
    if reason is not None:
        raise errors.ArchiveDamaged(path=str(storage), reason=reason)
    return save(storage, after)


def save(storage: str | Path | Storage, manifest: Manifest) -> Manifest:
    """Commit a manifest under the number after its own; `Taken` if another run has. Its files are durable already."""
    storage = storage_at(storage)
    _mark(storage)
    require_conditional_writes(storage, NAME, lambda: _marked(tried=new_run()), what="archive")
    previous = _previous(storage, manifest.number)
    following = msgspec.structs.replace(
        manifest, format=FORMAT, number=manifest.number + 1, previous=previous, commit=new_run()
    )
    storage.put_new(name_of(following.number), _encoded(following))
    _empty(storage, following.number - KEPT)
    return following


def new_run() -> str:
    """A random name for a run. Its files and its manifest carry it, so no two runs write the same name."""
    return uuid.uuid4().hex[:16]


def _previous(storage: Storage, number: int) -> str:
    """The SHA-256 of the manifest of a number."""
    try:
        return hashlib.sha256(storage.read(name_of(number))).hexdigest()
    except FileNotFoundError:
        if number:
            raise Taken from None  # it was emptied or replaced: read the newest manifest again
        return ""


def _encoded(document: object) -> bytes:
    body = msgspec.json.encode(document)
    return body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def _mark(storage: Storage) -> None:
    """Mark the archive as format 2 before anything is committed, so that earlier versions refuse it.

    As long as `manifest.json` is of format 1 it is in force, and `manifests/` is ignored. So it is copied to
    `manifests/` first, and then replaced.
    """
    marker = _marker(storage)
    if marker is not None and _format_of(storage, marker) < FORMAT:
        storage.put(name_of(_decoded(storage, marker).number), marker)
        marker = None
    if marker is None:
        storage.put(NAME, _marked())


def _marked(**more: str) -> bytes:
    return _encoded({"format": FORMAT, "manifests": FOLDER, **more})


def _empty(storage: Storage, number: int) -> None:
    """Empty an old manifest: its name stays taken."""
    size = storage.size(name_of(number)) if number > 0 else None
    if size is not None and size > len(_EMPTIED):
        storage.put(name_of(number), _EMPTIED)
