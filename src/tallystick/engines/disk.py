"""The file system of this machine: Linux, macOS and Windows behind one port.

All differences between them are here: positioned reads and writes, full fsync, fsync of a directory, locks.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from tallystick import errors
from tallystick.engines.mounts import is_file_mount
from tallystick.store.backoff import Backoff
from tallystick.store.filesystem import File, FileSystem, Lock

WINDOWS = sys.platform == "win32"
TRIES_MAX = 8  # a quarter of a second
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not wait for its other end


class DiskFile:
    """A file by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_at(self, offset: int, size: int) -> bytes:
        pieces = []
        while size > 0:
            piece = os.pread(self._descriptor, size, offset)
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
            offset += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def write_at(self, offset: int, data: bytes | bytearray) -> int:
        return os.pwrite(self._descriptor, data, offset)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def sync(self) -> None:
        full_sync(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    @property
    def descriptor(self) -> int:
        """The number of the open file."""
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()  # a file that fell out of a cache closes when its last reader is done with it


class SeekingFile(DiskFile):
    """A file for a system without positioned reads and writes (Windows): seek and act under a lock."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._lock = threading.Lock()

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            pieces = []
            while size > 0 and (piece := os.read(self._descriptor, size)):
                pieces.append(piece)
                size -= len(piece)
            return b"".join(pieces)

    def write_at(self, offset: int, data: bytes | bytearray) -> int:
        with self._lock:
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            return os.write(self._descriptor, data)


def full_sync(descriptor: int) -> None:
    """fdatasync where there is one; on macOS through the drive's cache, which plain fsync does not reach there."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


class DiskLock:
    """An exclusive lock on a whole file, and on its directory where that can be held open, unless `file_only`.

    It uses flock, because lockf is dropped as soon as the same process closes the file anywhere. The pid in the file is
    for people; only the system knows whether the lock is free. If the lock file is removed or moved away, the directory
    stays locked. A forked child closes its copies at once, so that one process holds the lock.
    """

    def __init__(self, path: str, name: str, *, directory: int | None = None, file_only: bool = False) -> None:
        self._name, self._directory = name, directory
        self._descriptor = os.open(name, os.O_RDWR | os.O_CREAT | _BINARY, 0o600, dir_fd=directory)
        self._held = [self._descriptor]
        try:
            _lock(self._descriptor)
        except OSError:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            holder = os.read(self._descriptor, 64).decode(errors="replace").strip() or "another process"
            self._close()
            raise errors.StoreLocked(path=path, owner=holder) from None
        self._directory_is_locked = directory is not None and not file_only and self._lock_directory(path, directory)
        _locks.add(self)
        owner = f"pid {os.getpid()}\n".encode()
        if os.read(self._descriptor, 64) != owner:  # a process that locks often need not write each time
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, owner)

    def _lock_directory(self, path: str, directory: int) -> bool:
        """Lock the directory too; False where the system has no such locks."""
        self._held.append(os.open(".", os.O_RDONLY | _BINARY, dir_fd=directory))
        try:
            _lock(self._held[-1])
        except BlockingIOError:
            self._close()
            owner = "another process, whose lock file was removed or replaced"
            raise errors.StoreLocked(path=path, owner=owner) from None
        except OSError:
            return False
        return True

    @property
    def is_held(self) -> bool:
        """Whether no other process can take this lock: its directory is locked, or its name still leads to it."""
        return self._directory_is_locked or _leads_to(self._name, self._directory, self._descriptor)

    def release(self) -> None:
        """Unlock, and close: a child that was forked just now may still have its copies."""
        for descriptor in self._held:
            _unlock(descriptor)
        self._close()

    def _close(self) -> None:
        held, self._held, self._descriptor = self._held, [], -1
        for descriptor in held:
            os.close(descriptor)


_locks: weakref.WeakSet[DiskLock] = weakref.WeakSet()


def _close_inherited() -> None:
    for lock in list(_locks):
        lock._close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


def _lock(descriptor: int) -> None:
    if WINDOWS:
        msvcrt: Any = __import__("msvcrt")
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # lock a byte after the text, so that others can read the owner
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _when_free(act: Callable[[], None]) -> None:
    """Change a name. On Windows another process may have the file open for a moment, and then its name stays."""
    backoff = None
    while True:
        try:
            return act()
        except PermissionError:
            backoff = backoff or Backoff("change of a name", tries_max=TRIES_MAX if WINDOWS else 0)
            if not backoff.pause():
                raise


def _unlock(descriptor: int) -> None:
    if not WINDOWS:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _leads_to(name: str, directory: int | None, descriptor: int) -> bool:
    """Whether a name leads to an open file."""
    try:
        return os.path.samestat(os.stat(name, dir_fd=directory, follow_symlinks=False), os.fstat(descriptor))
    except OSError:
        return False


class Disk:
    """The real file system."""

    def __init__(self) -> None:
        self.pins_open_files = WINDOWS
        self._file = DiskFile if hasattr(os, "pread") else SeekingFile

    def _place(self, path: str) -> tuple[str, int | None]:
        """A path for a system call: a name, and the open directory that it is relative to."""
        return path, None

    def make_dir(self, path: str) -> None:
        if not self._is_dir(path):
            parent = os.path.dirname(path)
            if parent and parent != path:
                self.make_dir(parent)
            name, directory = self._place(path)
            try:
                os.mkdir(name, 0o700, dir_fd=directory)
            except FileExistsError:
                if not self._is_dir(path):
                    raise
            self.sync_dir(parent or ".")

    def _is_dir(self, path: str) -> bool:
        found = self._stat(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def _stat(self, path: str) -> os.stat_result | None:
        name, directory = self._place(path)
        try:
            return os.stat(name, dir_fd=directory)
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        return self._stat(path) is not None

    def list(self, path: str) -> list[str]:
        name, directory = self._place(path)
        if directory is None:
            return sorted(os.listdir(name))
        descriptor = os.open(name, os.O_RDONLY | _BINARY, dir_fd=directory)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def open_read(self, path: str) -> File:
        return self._open(path, os.O_RDONLY)

    def open_write(self, path: str) -> File:
        return self._open(path, os.O_RDWR)

    def create(self, path: str) -> File:
        return self._open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def _open(self, path: str, flags: int) -> File:
        name, directory = self._place(path)
        descriptor = os.open(name, flags | _BINARY | _NOFOLLOW | _NONBLOCK, 0o600, dir_fd=directory)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(f"{path} is not a regular file")
        return self._file(descriptor)

    def rename(self, old: str, new: str) -> None:
        (old_name, source), (new_name, target) = self._place(old), self._place(new)
        _when_free(lambda: os.replace(old_name, new_name, src_dir_fd=source, dst_dir_fd=target))

    def unlink(self, path: str) -> None:
        name, directory = self._place(path)
        _when_free(lambda: os.unlink(name, dir_fd=directory))

    def leads_to(self, path: str, file: File) -> bool:
        name, directory = self._place(path)
        return isinstance(file, DiskFile) and _leads_to(name, directory, file.descriptor)

    def has_other_names(self, path: str) -> bool:
        status = self._stat(path)
        if status is None or not stat.S_ISREG(status.st_mode):
            return False
        return status.st_nlink > 1 or is_file_mount(path)

    def sync_dir(self, path: str) -> None:
        if WINDOWS:  # a directory cannot be opened there; the rename itself is journalled by NTFS
            return
        name, directory = self._place(path)
        descriptor = os.open(name, os.O_RDONLY, dir_fd=directory)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str, *, file_only: bool = False) -> Lock:
        name, directory = self._place(path)
        return DiskLock(path, name, directory=directory, file_only=file_only)

    def free_bytes(self, path: str) -> int:
        name, directory = self._place(path)
        return shutil.disk_usage(name if directory is None else directory).free

    def anchored(self, directory: str) -> FileSystem:
        return AnchoredDisk(directory) if os.open in os.supports_dir_fd else self

    def is_moved(self, directory: str) -> bool:
        return False

    def release(self) -> None:
        """Nothing is held."""


class AnchoredDisk(Disk):
    """The real file system, with one directory held open: its files are found even if it is moved."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self._root = root
        self._below = f"{root.rstrip('/')}/"
        self._descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | _BINARY)

    def _place(self, path: str) -> tuple[str, int | None]:
        if self._descriptor < 0:  # released
            return path, None
        if path.startswith(self._below):
            return path[len(self._below) :] or ".", self._descriptor
        return (".", self._descriptor) if path == self._root else (path, None)

    def is_moved(self, directory: str) -> bool:
        return directory == self._root and not _leads_to_directory(directory, self._descriptor)

    def release(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.release()


def _leads_to_directory(path: str, descriptor: int) -> bool:
    """Whether a path leads to an open directory; also by a link."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False
