"""The file-system port: every operation of an engine on files, so that tests can record, fail or tear each of them.

An engine may rely on three rules only. Data is durable after `sync` of its file. A name is durable after `sync_dir` of
its directory. `rename` replaces at once or not at all. Everything else may be lost, torn, zeroed or reordered.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Protocol

from tallystick.store.backoff import Backoff

PIECE_BYTES = 4 << 20

TRANSIENT = frozenset({errno.EINTR, errno.EAGAIN})
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class File(Protocol):
    """An open file, addressed by offset."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def write_at(self, offset: int, data: bytes | bytearray) -> int:
        """Write at an offset; returns how many bytes were written, which may be fewer than given."""

    def size(self) -> int: ...
    def sync(self) -> None:
        """Make data and size durable, also through the drive's own cache where the system can."""

    def truncate(self, size: int) -> None: ...
    def close(self) -> None: ...


class Lock(Protocol):
    """A held lock. It ends with `release`, or with the process that took it; a forked child does not hold it."""

    @property
    def is_held(self) -> bool:
        """Whether no other process can take it, whatever was done to the lock file."""

    def release(self) -> None: ...


class FileSystem(Protocol):
    """Names and directories. Paths are texts with `/`. Only regular files can be opened."""

    @property
    def pins_open_files(self) -> bool:
        """Whether a file that any process has open cannot be renamed, replaced or removed (Windows)."""

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents, unless they exist."""

    def exists(self, path: str) -> bool: ...
    def list(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def open_read(self, path: str) -> File: ...
    def open_write(self, path: str) -> File:
        """Open an existing file for reading and writing."""

    def create(self, path: str) -> File:
        """Make an empty file; an existing one of that name is emptied."""

    def rename(self, old: str, new: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""

    def lock(self, path: str, *, file_only: bool = False) -> Lock:
        """Take the exclusive lock of this file, or raise `StoreLocked` at once.

        The directory is locked with it where it is held open, unless `file_only`: then removing the name ends the lock.
        """

    def free_bytes(self, path: str) -> int: ...
    def leads_to(self, path: str, file: File) -> bool:
        """Whether this name still leads to an open file."""

    def has_other_names(self, path: str) -> bool:
        """Whether other names lead to this file too: a hard link, or a mount of this file only."""

    def anchored(self, directory: str) -> FileSystem:
        """This file system with a directory held open until `release`: its paths lead there, also after it is moved."""

    def is_moved(self, directory: str) -> bool:
        """Whether the path of a directory that is held open now leads elsewhere."""

    def release(self) -> None:
        """Close what `anchored` holds open."""


class NamedFile:
    """A file that is opened for each read, so that it can be replaced in between."""

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self._path = path

    def read_at(self, offset: int, size: int) -> bytes:
        with closing(self._files.open_read(self._path)) as file:
            return file.read_at(offset, size)

    def size(self) -> int:
        return size_of(self._files, self._path)

    def write_at(self, offset: int, data: bytes | bytearray) -> int:
        raise OSError(errno.EBADF, "it is open for reading", self._path)

    def truncate(self, size: int) -> None:
        raise OSError(errno.EBADF, "it is open for reading", self._path)

    def sync(self) -> None:
        """Nothing was written."""

    def close(self) -> None:
        """It is open only during a read."""


def size_of(files: FileSystem, path: str) -> int:
    """The size of a file that is not open."""
    with closing(files.open_read(path)) as file:
        return file.size()


def open_replaceable(files: FileSystem, path: str) -> File:
    """Open a file that is read for a long time, so that a writer can replace it meanwhile."""
    return NamedFile(files, path) if files.pins_open_files else files.open_read(path)


def write_fully(file: File, offset: int, data: bytes | bytearray) -> None:
    """Write all of `data`. What is transient is retried with pauses; there is a bound on tries without progress."""
    done, backoff = 0, None
    while done < len(data):
        failure = OSError(errno.EIO, "the file takes no more bytes")
        try:
            taken = file.write_at(offset + done, data[done:] if done else data)
        except OSError as problem:
            if problem.errno not in TRANSIENT:
                raise
            taken, failure = 0, problem
        done += taken
        if not taken:
            backoff = backoff or Backoff("write")
            if not backoff.pause():
                raise failure
        elif backoff is not None:
            backoff.begin_again()


def pieces(file: File, begin: int, end: int) -> Iterator[bytes]:
    """The bytes of a file between two offsets, in pieces that fit into memory."""
    while begin < end and (data := file.read_at(begin, min(PIECE_BYTES, end - begin))):
        yield data
        begin += len(data)


def write_file(files: FileSystem, path: str, data: Iterable[bytes]) -> None:
    """Write a new file and sync it. Its name is not durable yet."""
    with closing(files.create(path)) as file:
        at = 0
        for piece in data:
            write_fully(file, at, piece)
            at += len(piece)
        file.sync()


def stage_file(files: FileSystem, directory: str, name: str, data: bytes | Iterable[bytes]) -> None:
    """Write a file under a temporary name, durably. If the disk is full, this is what fails."""
    write_file(files, f"{directory}/{name}.tmp", (data,) if isinstance(data, bytes) else data)


def publish_file(files: FileSystem, directory: str, name: str) -> None:
    """Rename a staged file to its name, durably."""
    files.rename(f"{directory}/{name}.tmp", f"{directory}/{name}")
    files.sync_dir(directory)


def replace_file(files: FileSystem, directory: str, name: str, data: bytes | Iterable[bytes]) -> None:
    """Replace a whole file, so that a crash leaves the old one or the new one."""
    stage_file(files, directory, name, data)
    publish_file(files, directory, name)
