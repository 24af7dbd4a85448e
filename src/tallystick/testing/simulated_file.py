"""An open file and a held lock of a simulated disk."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallystick.testing.simulated_disk import SimulatedDisk


class SimulatedFile:
    """An open file of a simulated disk."""

    def __init__(self, disk: SimulatedDisk, path: str, inode: int, *, writable: bool) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._writable = writable
        self._closed = False
        disk.open_files[inode] += 1

    @property
    def inode(self) -> int:
        """The number of the file on its disk."""
        return self._inode

    def read_at(self, offset: int, size: int) -> bytes:
        self._require_open()
        return bytes(self._disk.state.inodes[self._inode].data[offset : offset + size])

    def write_at(self, offset: int, data: bytes | bytearray) -> int:
        self._require_open(writing=True)
        taken = self._disk.room_for(self._inode, offset, len(data))
        self._disk.do("write", self._path, self._inode, offset=offset, data=bytes(data[:taken]))
        return taken

    def size(self) -> int:
        self._require_open()
        return len(self._disk.state.inodes[self._inode].data)

    def sync(self) -> None:
        self._require_open()
        self._disk.do("sync", self._path, self._inode)

    def sync_failed(self) -> None:
        """A sync that reports an error. If the system then counts the data as clean, it is never written."""
        if self._disk.loses_on_failed_sync:
            self._disk.do("sync_failed", self._path, self._inode)

    def truncate(self, size: int) -> None:
        self._require_open(writing=True)
        self._disk.do("truncate", self._path, self._inode, offset=size)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._disk.open_files[self._inode] -= 1

    def __del__(self) -> None:
        self.close()  # like a real file that nothing refers to any more

    def _require_open(self, *, writing: bool = False) -> None:
        if self._closed or (writing and not self._writable):
            raise OSError(errno.EBADF, "bad file descriptor", self._path)


class SimulatedLock:
    """A lock of a simulated disk."""

    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path
        held.add(path)

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, whatever happened to its file."""
        return self._path in self._held

    def release(self) -> None:
        self._held.discard(self._path)
