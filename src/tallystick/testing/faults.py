"""A file system that fails on purpose: at the n-th operation of a kind, once or from then on.

A test loops over n = 1, 2, 3 … until `fired` stays 0. Then every operation of that kind has failed once.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable

import msgspec

from tallystick import errors
from tallystick.store.filesystem import File, FileSystem, Lock

OPERATIONS = (
    "open",
    "create",
    "read",
    "write",
    "sync",
    "sync_dir",
    "rename",
    "unlink",
    "truncate",
    "list",
    "lock",
    "make_dir",
)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Which operation fails, and how.

    With `short`, a write takes that many bytes and returns that number, instead of failing. `path_part` limits the
    fault to paths that contain it; operations on other paths are not counted.
    """

    operation: str
    nth: int = 1
    error: int = errno.EIO
    persistent: bool = False
    short: int | None = None
    path_part: str = ""

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise errors.InvalidValue(what="operation", value=self.operation, must="one of " + ", ".join(OPERATIONS))

    def __str__(self) -> str:
        how = f"takes {self.short} bytes" if self.short is not None else errno.errorcode[self.error]
        return f"{self.operation} {self.nth}{' and later' if self.persistent else ''}: {how}"


class FaultyFile:
    """A file whose operations are counted and may fail."""

    def __init__(self, system: FaultyFileSystem, file: File, path: str) -> None:
        self._system = system
        self._file = file
        self._path = path

    @property
    def inner(self) -> File:
        """The file without faults."""
        return self._file

    def read_at(self, offset: int, size: int) -> bytes:
        self._system.fail_if_due("read", self._path)
        return self._file.read_at(offset, size)

    def write_at(self, offset: int, data: bytes | bytearray) -> int:
        if not self._system.is_due("write", self._path):
            return self._file.write_at(offset, data)
        fault = self._system.fault
        if fault is None or fault.short is None:
            raise self._system.error(self._path)
        taken = min(fault.short, len(data))
        return self._file.write_at(offset, data[:taken]) if taken else 0

    def size(self) -> int:
        return self._file.size()

    def sync(self) -> None:
        if self._system.is_due("sync", self._path):
            failed: Callable[[], None] = getattr(self._file, "sync_failed", lambda: None)
            failed()
            raise self._system.error(self._path)
        self._file.sync()

    def truncate(self, size: int) -> None:
        self._system.fail_if_due("truncate", self._path)
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


class FaultyFileSystem:
    """Any file system, with one fault. `counts` has the number of operations of each kind, including failed ones."""

    def __init__(self, inner: FileSystem, fault: Fault | None = None) -> None:
        self.inner = inner
        self.fault = fault
        self.counts: Counter[str] = Counter()
        self.fired = 0
        self._matching = 0

    def inject(self, fault: Fault | None) -> None:
        """Replace the fault and start counting again. None means that nothing fails."""
        self.fault = fault
        self.fired = self._matching = 0

    def is_due(self, operation: str, path: str) -> bool:
        """Count an operation and return whether it fails."""
        self.counts[operation] += 1
        fault = self.fault
        if fault is None or fault.operation != operation or fault.path_part not in path:
            return False
        self._matching += 1
        due = self._matching >= fault.nth if fault.persistent else self._matching == fault.nth
        self.fired += due
        return due

    def error(self, path: str) -> OSError:
        """The error that the fault raises."""
        number = self.fault.error if self.fault else errno.EIO
        return OSError(number, f"{os.strerror(number)} (injected)", path)

    def fail_if_due(self, operation: str, path: str) -> None:
        """Count an operation, and raise the error of the fault if it fails."""
        if self.is_due(operation, path):
            raise self.error(path)

    @property
    def pins_open_files(self) -> bool:
        return self.inner.pins_open_files

    def make_dir(self, path: str) -> None:
        self.fail_if_due("make_dir", path)
        self.inner.make_dir(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def open_read(self, path: str) -> File:
        self.fail_if_due("open", path)
        return FaultyFile(self, self.inner.open_read(path), path)

    def open_write(self, path: str) -> File:
        self.fail_if_due("open", path)
        return FaultyFile(self, self.inner.open_write(path), path)

    def create(self, path: str) -> File:
        self.fail_if_due("create", path)
        return FaultyFile(self, self.inner.create(path), path)

    def rename(self, old: str, new: str) -> None:
        self.fail_if_due("rename", new)
        self.inner.rename(old, new)

    def unlink(self, path: str) -> None:
        self.fail_if_due("unlink", path)
        self.inner.unlink(path)

    def sync_dir(self, path: str) -> None:
        self.fail_if_due("sync_dir", path)
        self.inner.sync_dir(path)

    def lock(self, path: str, *, file_only: bool = False) -> Lock:
        self.fail_if_due("lock", path)
        return self.inner.lock(path, file_only=file_only)

    def free_bytes(self, path: str) -> int:
        return self.inner.free_bytes(path)

    def leads_to(self, path: str, file: File) -> bool:
        return self.inner.leads_to(path, file.inner if isinstance(file, FaultyFile) else file)

    def has_other_names(self, path: str) -> bool:
        return self.inner.has_other_names(path)

    def anchored(self, directory: str) -> FileSystem:
        self.inner = self.inner.anchored(directory)
        return self

    def is_moved(self, directory: str) -> bool:
        return self.inner.is_moved(directory)

    def release(self) -> None:
        """Does nothing: other stores of the test may still use the inner file system."""

    def list(self, path: str) -> list[str]:
        self.fail_if_due("list", path)
        return self.inner.list(path)
