"""A file system in memory that knows what a power loss would leave.

`sync` of a file makes its bytes durable, and `sync_dir` of a directory makes its names durable. Until then each write,
truncation, creation, rename and removal is pending. `operations` lists everything that was done, so that
`tallystick.testing.crash_states` can go back to any moment and compute what the disk could hold.
"""

from __future__ import annotations

import errno
import itertools
import os
import posixpath
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from tallystick import errors
from tallystick.store.filesystem import File, Lock
from tallystick.testing.simulated_file import SimulatedFile, SimulatedLock

ROOTS = frozenset({".", "/"})
FREE_BYTES = 1 << 40


class Operation(msgspec.Struct, frozen=True):
    """One operation on the disk. `offset` is also the size of a truncation, `other` the new name of a rename."""

    kind: str
    path: str
    inode: int = 0
    offset: int = 0
    data: bytes = b""
    other: str = ""

    def __str__(self) -> str:
        if self.kind == "write":
            return f"write {self.path} (file {self.inode}) at {self.offset}: {len(self.data)} bytes"
        if self.kind == "truncate":
            return f"truncate {self.path} (file {self.inode}) to {self.offset}"
        return f"{self.kind} {self.path}{f' to {self.other}' if self.other else ''} (file {self.inode})"


class ByteChange(msgspec.Struct, frozen=True):
    """A pending change of a file's bytes: a write, or a truncation if `data` is None."""

    offset: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        """Apply it to some bytes. A gap between the old end and the new bytes is filled with zeros."""
        if len(content) < self.offset:
            content.extend(bytes(self.offset - len(content)))
        if self.data is None:
            del content[self.offset :]
        else:
            content[self.offset : self.offset + len(self.data)] = self.data


class NameChange(msgspec.Struct, frozen=True):
    """A pending change of names. If `name` is None, the file loses its name. A rename is one atomic change."""

    directories: frozenset[str]
    inode: int
    name: str | None

    def apply(self, names: dict[str, int]) -> None:
        """Apply it to a table of names."""
        for old in [name for name, inode in names.items() if inode == self.inode]:
            del names[old]
        if self.name is not None:
            names[self.name] = self.inode


class Inode:
    """A file: its bytes now, its bytes after a power loss that loses all pending changes, and the pending changes."""

    __slots__ = ("data", "durable", "is_dir", "pending")

    def __init__(self, data: bytes = b"", *, is_dir: bool = False) -> None:
        self.data: bytes | bytearray = data
        self.durable = data
        self.pending: list[ByteChange] = []
        self.is_dir = is_dir

    def change(self, change: ByteChange) -> None:
        """Change the bytes. The change is pending until the next sync."""
        if isinstance(self.data, bytes):
            self.data = bytearray(self.data)
        change.apply(self.data)
        self.pending.append(change)

    def sync(self) -> None:
        """Make the pending changes durable, and nothing else: bytes that a failed sync lost stay lost."""
        if self.pending:
            self.durable = applied(self.durable, self.pending)
            self.pending = []

    def clone(self) -> Inode:
        """A copy. Both share the bytes until one of them changes."""
        self.data = bytes(self.data)
        twin = Inode(self.data, is_dir=self.is_dir)
        twin.durable, twin.pending = self.durable, list(self.pending)
        return twin


def parent_of(path: str) -> str:
    """The directory that holds a name."""
    return posixpath.dirname(path) or "."


def applied(content: bytes, changes: Iterable[ByteChange]) -> bytes:
    """Bytes after some changes."""
    changed = bytearray(content)
    for change in changes:
        change.apply(changed)
    return bytes(changed)


class DiskState:
    """All inodes and names, current and durable. It applies operations. It has no handles or locks."""

    def __init__(self) -> None:
        self.inodes: dict[int, Inode] = {}
        self.names: dict[str, int] = {}
        self.durable_names: dict[str, int] = {}
        self.pending_names: list[NameChange] = []

    @classmethod
    def holding(cls, image: dict[str, bytes | None]) -> DiskState:
        """A state in which these paths are durable, with their bytes; None for a directory."""
        state = cls()
        for number, (path, data) in enumerate(image.items(), start=1):
            state.inodes[number] = Inode(data or b"", is_dir=data is None)
            state.names[path] = number
        state.durable_names = dict(state.names)
        return state

    def clone(self) -> DiskState:
        """A copy. It is cheap until it is written to."""
        twin = DiskState()
        twin.inodes = {number: inode.clone() for number, inode in self.inodes.items()}
        twin.names, twin.durable_names = dict(self.names), dict(self.durable_names)
        twin.pending_names = list(self.pending_names)
        return twin

    def image(self) -> dict[str, bytes | None]:
        """What a reader sees now."""
        return reachable(self.names, {number: bytes(inode.data) for number, inode in self.inodes.items()}, self.inodes)

    def apply(self, done: Operation) -> None:
        """Apply an operation, the first time or in a replay."""
        if done.kind in ("create", "make_dir"):
            self.inodes[done.inode] = Inode(is_dir=done.kind == "make_dir")
            self._rename(done.inode, {parent_of(done.path)}, done.path)
        elif done.kind == "rename":
            self._rename(done.inode, {parent_of(done.path), parent_of(done.other)}, done.other)
        elif done.kind == "unlink":
            self._rename(done.inode, {parent_of(done.path)}, None)
        elif done.kind == "write":
            self.inodes[done.inode].change(ByteChange(done.offset, done.data))
        elif done.kind == "truncate":
            self.inodes[done.inode].change(ByteChange(done.offset, None))
        elif done.kind == "sync":
            self.inodes[done.inode].sync()
        elif done.kind == "sync_failed":
            self.inodes[done.inode].pending = []
        elif done.kind == "sync_dir":
            self._sync_dir(done.path)

    def _rename(self, inode: int, directories: set[str], name: str | None) -> None:
        change = NameChange(frozenset(directories), inode, name)
        change.apply(self.names)
        self.pending_names.append(change)

    def _sync_dir(self, path: str) -> None:
        for change in self.pending_names:
            if path in change.directories:
                change.apply(self.durable_names)
        self.pending_names = [change for change in self.pending_names if path not in change.directories]


def reachable(names: dict[str, int], contents: dict[int, bytes], inodes: dict[int, Inode]) -> dict[str, bytes | None]:
    """The paths that can be reached, with their bytes. A file whose directory is lost is lost too."""
    found: dict[str, bytes | None] = {}
    for path in sorted(names):  # a directory sorts before what is in it
        parent = parent_of(path)
        if parent in ROOTS or found.get(parent, b"") is None:
            found[path] = None if inodes[names[path]].is_dir else contents[names[path]]
    return found


class SimulatedDisk:
    """The file system port, over a state that knows what is durable.

    - `folds_case`: names that differ only in case are one name, as on macOS and Windows.
    - `capacity_bytes`: the size limit of all files together. Past it, writes are short and then fail with ENOSPC.
    - `pins_open_files`: an open file cannot be renamed, replaced or removed, as on Windows.
    - `loses_on_failed_sync`: after a failed sync the data counts as clean, as on Linux. Only a fault makes a sync fail.
    """

    def __init__(
        self,
        state: DiskState | None = None,
        *,
        folds_case: bool = False,
        pins_open_files: bool = False,
        capacity_bytes: int | None = None,
        loses_on_failed_sync: bool = False,
    ) -> None:
        self.state = state or DiskState()
        self.origin = self.state.clone()
        self.operations: list[Operation] = []
        self.folds_case = folds_case
        self.pins_open_files = pins_open_files
        self.open_files: Counter[int] = Counter()
        self.capacity_bytes = capacity_bytes
        self.loses_on_failed_sync = loses_on_failed_sync
        self._locks: set[str] = set()
        self._inodes = itertools.count(max(self.state.inodes, default=0) + 1)

    @classmethod
    def holding(cls, image: dict[str, bytes | None], **options: Any) -> SimulatedDisk:
        """A disk on which these paths are durable, with their bytes; None for a directory."""
        return cls(DiskState.holding(image), **options)

    def clone(self) -> SimulatedDisk:
        """The disk as the next process finds it. Pending changes stay pending; locks and history are gone."""
        return SimulatedDisk(
            self.state.clone(),
            folds_case=self.folds_case,
            pins_open_files=self.pins_open_files,
            capacity_bytes=self.capacity_bytes,
            loses_on_failed_sync=self.loses_on_failed_sync,
        )

    def image(self) -> dict[str, bytes | None]:
        """What a reader sees now: paths with their bytes; None for a directory."""
        return self.state.image()

    def do(self, kind: str, path: str, inode: int, **values: Any) -> None:
        """Apply an operation and add it to `operations`."""
        done = Operation(kind, path, inode, **values)
        self.state.apply(done)
        self.operations.append(done)

    def room_for(self, inode: int, offset: int, size: int) -> int:
        """How many of these bytes the disk takes. Raises ENOSPC if it takes none."""
        if self.capacity_bytes is None:
            return size
        length = len(self.state.inodes[inode].data)
        taken = min(size, max(0, length + self.free_bytes("") - offset))
        if size and not taken:
            raise OSError(errno.ENOSPC, "no space left on device")
        return taken

    # --- the port --------------------------------------------------------------------------------------------------

    def make_dir(self, path: str) -> None:
        path = self._path(path)
        if self.exists(path):
            self._require_dir(path)
            return
        parent = parent_of(path)
        self.make_dir(parent)
        self.do("make_dir", path, next(self._inodes))
        self.sync_dir(parent)

    def exists(self, path: str) -> bool:
        return self._path(path) in ROOTS or self._path(path) in self.state.names

    def open_read(self, path: str) -> File:
        path = self._path(path)
        return SimulatedFile(self, path, self._file(path), writable=False)

    def open_write(self, path: str) -> File:
        path = self._path(path)
        return SimulatedFile(self, path, self._file(path), writable=True)

    def create(self, path: str) -> File:
        path = self._path(path)
        if path in self.state.names:
            self.do("truncate", path, self._file(path), offset=0)
        else:
            self._require_dir(parent_of(path))
            self.do("create", path, next(self._inodes))
        return self.open_write(path)

    def rename(self, old: str, new: str) -> None:
        old, new = self._path(old), self._path(new)
        inode = self._file(old)
        self._require_dir(parent_of(new))
        replaced = self.state.names.get(new)
        if replaced is not None and self.state.inodes[replaced].is_dir:
            raise IsADirectoryError(errno.EISDIR, "is a directory", new)
        self._require_free(old, inode)
        if replaced is not None:
            self._require_free(new, replaced)
        self.do("rename", old, inode, other=new)

    def unlink(self, path: str) -> None:
        path = self._path(path)
        inode = self._file(path)
        self._require_free(path, inode)
        self.do("unlink", path, inode)

    def sync_dir(self, path: str) -> None:
        path = self._path(path)
        self._require_dir(path)
        self.do("sync_dir", path, 0)

    def lock(self, path: str, *, file_only: bool = False) -> Lock:
        path = self._path(path)
        if path in self._locks:
            raise errors.StoreLocked(path=path, owner=f"pid {os.getpid()}")
        if path not in self.state.names:
            self.create(path).close()
        return SimulatedLock(self._locks, path)

    def leads_to(self, path: str, file: File) -> bool:
        return isinstance(file, SimulatedFile) and self.state.names.get(self._path(path)) == file.inode

    def has_other_names(self, path: str) -> bool:
        return False

    def anchored(self, directory: str) -> SimulatedDisk:
        return self  # its directories cannot be moved

    def is_moved(self, directory: str) -> bool:
        return False

    def release(self) -> None:
        """Does nothing."""

    def free_bytes(self, path: str) -> int:
        if self.capacity_bytes is None:
            return FREE_BYTES
        return self.capacity_bytes - sum(len(self.state.inodes[number].data) for number in self.state.names.values())

    def list(self, path: str) -> list[str]:
        path = self._path(path)
        self._require_dir(path)
        return sorted(posixpath.basename(name) for name in self.state.names if parent_of(name) == path)

    # --- names -----------------------------------------------------------------------------------------------------

    def _path(self, path: str) -> str:
        path = posixpath.normpath(path)
        if self.folds_case and path not in self.state.names:
            folded = path.casefold()
            return next((name for name in self.state.names if name.casefold() == folded), path)
        return path

    def _file(self, path: str) -> int:
        inode = self._inode(path)
        if self.state.inodes[inode].is_dir:
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return inode

    def _require_free(self, path: str, inode: int) -> None:
        if self.pins_open_files and self.open_files[inode] > 0:
            raise PermissionError(errno.EACCES, "the file is in use", path)

    def _require_dir(self, path: str) -> None:
        if path not in ROOTS and not self.state.inodes[self._inode(path)].is_dir:
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)

    def _inode(self, path: str) -> int:
        inode = self.state.names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        return inode
