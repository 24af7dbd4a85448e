"""A file system in memory that knows what a power loss would leave.

Bytes become durable with `sync` of their file, names with `sync_dir` of their directory; until then each write,
truncation, creation, rename and removal is pending. `operations` lists everything that was done, so that
`tallystick.testing.crash_states` can go back to any moment and ask what the disk might hold.
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
    """One thing done to the disk. `offset` is also the size of a truncation, `other` the new name of a rename."""

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


class Change(msgspec.Struct, frozen=True):
    """A pending change of a file's bytes: a write, or a truncation if `data` is None."""

    offset: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        """Do it to some bytes; what lies between the old end and the new bytes reads as zeros."""
        if len(content) < self.offset:
            content.extend(bytes(self.offset - len(content)))
        if self.data is None:
            del content[self.offset :]
        else:
            content[self.offset : self.offset + len(self.data)] = self.data


class NameChange(msgspec.Struct, frozen=True):
    """A pending change of names: `name` None means that the file loses its name. A rename is one change: atomic."""

    directories: frozenset[str]
    inode: int
    name: str | None

    def apply(self, names: dict[str, int]) -> None:
        """Do it to a table of names."""
        for old in [name for name, inode in names.items() if inode == self.inode]:
            del names[old]
        if self.name is not None:
            names[self.name] = self.inode


class Inode:
    """A file: its bytes now, its bytes after a power loss that takes all that is pending, and what is pending."""

    __slots__ = ("data", "durable", "is_dir", "pending")

    def __init__(self, data: bytes = b"", *, is_dir: bool = False) -> None:
        self.data: bytes | bytearray = data
        self.durable = data
        self.pending: list[Change] = []
        self.is_dir = is_dir

    def change(self, change: Change) -> None:
        """Change the bytes; the change is pending from now on."""
        if isinstance(self.data, bytes):
            self.data = bytearray(self.data)
        change.apply(self.data)
        self.pending.append(change)

    def sync(self) -> None:
        """What is pending becomes durable, and nothing else: bytes lost by a failed sync stay lost."""
        if self.pending:
            self.durable = applied(self.durable, self.pending)
            self.pending = []

    def clone(self) -> Inode:
        """A copy. It shares the bytes until one of the two is changed."""
        self.data = bytes(self.data)
        twin = Inode(self.data, is_dir=self.is_dir)
        twin.durable, twin.pending = self.durable, list(self.pending)
        return twin


def parent_of(path: str) -> str:
    """The directory that holds a name."""
    return posixpath.dirname(path) or "."


def applied(content: bytes, changes: Iterable[Change]) -> bytes:
    """Bytes after some changes."""
    changed = bytearray(content)
    for change in changes:
        change.apply(changed)
    return bytes(changed)


class DiskState:
    """All inodes and names, now and durable. It does operations and knows nothing of handles and locks."""

    def __init__(self) -> None:
        self.inodes: dict[int, Inode] = {}
        self.names: dict[str, int] = {}
        self.durable_names: dict[str, int] = {}
        self.pending_names: list[NameChange] = []

    @classmethod
    def holding(cls, image: dict[str, bytes | None]) -> DiskState:
        """A state in which this is durable: paths with their bytes, None for a directory."""
        state = cls()
        for number, (path, data) in enumerate(image.items(), start=1):
            state.inodes[number] = Inode(data or b"", is_dir=data is None)
            state.names[path] = number
        state.durable_names = dict(state.names)
        return state

    def clone(self) -> DiskState:
        """A copy, cheap while it is not written to."""
        twin = DiskState()
        twin.inodes = {number: inode.clone() for number, inode in self.inodes.items()}
        twin.names, twin.durable_names = dict(self.names), dict(self.durable_names)
        twin.pending_names = list(self.pending_names)
        return twin

    def image(self) -> dict[str, bytes | None]:
        """What a reader sees now."""
        return reachable(self.names, {number: bytes(inode.data) for number, inode in self.inodes.items()}, self.inodes)

    def apply(self, done: Operation) -> None:
        """Do an operation, whether for the first time or in a replay."""
        if done.kind in ("create", "make_dir"):
            self.inodes[done.inode] = Inode(is_dir=done.kind == "make_dir")
            self._rename(done.inode, {parent_of(done.path)}, done.path)
        elif done.kind == "rename":
            self._rename(done.inode, {parent_of(done.path), parent_of(done.other)}, done.other)
        elif done.kind == "unlink":
            self._rename(done.inode, {parent_of(done.path)}, None)
        elif done.kind == "write":
            self.inodes[done.inode].change(Change(done.offset, done.data))
        elif done.kind == "truncate":
            self.inodes[done.inode].change(Change(done.offset, None))
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
    """The paths that can be reached, with their bytes: a file whose directory is lost is lost with it."""
    found: dict[str, bytes | None] = {}
    for path in sorted(names):  # a directory sorts before what is in it
        parent = parent_of(path)
        if parent in ROOTS or found.get(parent, b"") is None:
            found[path] = None if inodes[names[path]].is_dir else contents[names[path]]
    return found


class SimulatedDisk:
    """The port over a state that remembers what is durable.

    - `folds_case`: names that differ in case alone are one name, as on macOS and Windows.
    - `capacity_bytes`: how much all files together may hold; past it writes are short and then fail with ENOSPC.
    - `pins_open_files`: what is open, by whomever, can be neither renamed, replaced nor removed, as on Windows.
    - `loses_on_failed_sync`: a sync that failed counts the data as clean, as Linux does; only a fault makes one fail.
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
        """A disk on which this is durable: paths with their bytes, None for a directory."""
        return cls(DiskState.holding(image), **options)

    def clone(self) -> SimulatedDisk:
        """The disk as the next process finds it: pending stays pending, but there are no locks and no history."""
        return SimulatedDisk(
            self.state.clone(),
            folds_case=self.folds_case,
            pins_open_files=self.pins_open_files,
            capacity_bytes=self.capacity_bytes,
            loses_on_failed_sync=self.loses_on_failed_sync,
        )

    def image(self) -> dict[str, bytes | None]:
        """What a reader sees now: paths with their bytes, None for a directory."""
        return self.state.image()

    def do(self, kind: str, path: str, inode: int, **values: Any) -> None:
        """Do an operation and list it."""
        done = Operation(kind, path, inode, **values)
        self.state.apply(done)
        self.operations.append(done)

    def room_for(self, inode: int, offset: int, size: int) -> int:
        """How many of these bytes the disk takes; an error if none."""
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

    def lock(self, path: str, *, alone: bool = False) -> Lock:
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
        """There is nothing to give back."""

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
