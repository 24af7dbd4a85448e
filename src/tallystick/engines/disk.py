"""The file system of this machine: Linux, macOS and Windows behind one port.

What differs is here and nowhere else: positioned reads and writes, full fsync, fsync of a directory, locks.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
from typing import Any

from tallystick import errors
from tallystick.store.filesystem import File, Lock

WINDOWS = sys.platform == "win32"
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

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()  # a file that fell out of a cache closes when its last reader is done with it


class SeekingFile(DiskFile):
    """A file where the system has no positioned reads and writes (Windows): seek and act under a lock."""

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
    """An exclusive lock on a whole file.

    flock and not lockf: lockf is dropped as soon as the same process closes the file anywhere. The pid in the file is
    for people; whether the lock is free is for the system to say.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, 0o600)
        try:
            _lock(self._descriptor)
        except OSError:
            holder = os.read(self._descriptor, 64).decode(errors="replace").strip() or "another process"
            os.close(self._descriptor)
            raise errors.StoreLocked(path=path, owner=holder) from None
        told = f"pid {os.getpid()}\n".encode()
        if os.read(self._descriptor, 64) != told:  # who locks again and again need not wait for the disk each time
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, told)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _lock(descriptor: int) -> None:
    if WINDOWS:
        msvcrt: Any = __import__("msvcrt")
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # lock a byte behind the text, so that others can read who it is
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Disk:
    """The real file system."""

    def __init__(self) -> None:
        self._file = DiskFile if hasattr(os, "pread") else SeekingFile

    def make_dir(self, path: str) -> None:
        if not os.path.isdir(path):
            parent = os.path.dirname(path)
            if parent and parent != path:
                self.make_dir(parent)
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                if not os.path.isdir(path):
                    raise
            self.sync_dir(parent or ".")

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def open_read(self, path: str) -> File:
        return self._open(path, os.O_RDONLY)

    def open_write(self, path: str) -> File:
        return self._open(path, os.O_RDWR)

    def create(self, path: str) -> File:
        return self._open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def _open(self, path: str, flags: int) -> File:
        descriptor = os.open(path, flags | _BINARY | _NOFOLLOW | _NONBLOCK, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(f"{path} is not a regular file")
        return self._file(descriptor)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def sync_dir(self, path: str) -> None:
        if WINDOWS:  # a directory cannot be opened there; the rename itself is journalled by NTFS
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> Lock:
        return DiskLock(path)

    def free_bytes(self, path: str) -> int:
        return shutil.disk_usage(path).free
