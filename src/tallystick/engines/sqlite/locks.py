"""Who has a store open for writing: locks that end with the process that holds them, on any host.

Each process that writes holds two shared flocks: of the database file, and of the mark next to it. A process that
is alone can have the first one exclusively. The second one belongs to a name: if the database file is locked and the
mark next to this name is not, another process has the store open under another name, with another write-ahead log.

A process opens a database file once, for all of its handles: closing any descriptor of it would drop the locks of every
SQLite connection that the process has to that file. So the descriptor is closed when no other is left (`_may_close`).
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tallystick import errors
from tallystick.engines.disk import WINDOWS, Disk
from tallystick.engines.sqlite import mark
from tallystick.engines.sqlite.mark import StoreMarkFile

if not WINDOWS:
    import fcntl

_POLL_S = 0.005
_OTHER_NAME_S = 0.2  # how long a process may hold the database file and not yet, or no longer, its mark
_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_DESCRIPTORS = "/dev/fd"


class _File:
    """A database file as this process has it open."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | _FLAGS)
        self.mark_descriptor: int | None = None
        self.mark: StoreMarkFile | None = None
        self.handles = 0
        self.writers = 0
        self.opening = threading.RLock()


_guard = threading.Lock()
_files: dict[tuple[int, int], _File] = {}


class OpenLocks:
    """The locks of one handle. `alone`: no other handle, in any process, had the store open for writing."""

    def __init__(self, path: str, *, busy_ms: int) -> None:
        self._path = path
        self._pid = os.getpid()
        self._deadline = time.monotonic() + busy_ms / 1000
        self._busy_ms = busy_ms
        self._writes = False
        self._opens = False
        self.alone = False
        self._file = _shared(path)

    @property
    def mark(self) -> StoreMarkFile:
        """The mark, for a handle that writes."""
        assert self._file.mark is not None
        return self._file.mark

    def enter(self) -> None:
        """Take the locks of a writer. If nobody has the store open, others wait until `admit_others`."""
        self._begin_opening()
        self.alone = self._file.writers == 0 and self._take_lock()
        self._writes = True
        self._file.writers += 1
        if self._file.mark is None:
            self._open_mark()

    def admit_others(self) -> None:
        """Let others open the store: this handle has opened it."""
        if self.alone:  # a lock is exchanged in two steps, and another process may inspect the store in between
            self._deadline = time.monotonic() + self._busy_ms / 1000
            self._wait_for(lambda: _try(self._file.descriptor, "LOCK_SH"))
        self._end_opening()

    def check_for_writers(self) -> None:
        """Find out whether any process writes, and keep no lock: for a handle that only reads."""
        with self.while_no_writer():
            pass

    @contextmanager
    def while_no_writer(self) -> Iterator[None]:
        """Find out whether any process writes. If none does, none starts until the end of the block."""
        self._deadline = time.monotonic() + self._busy_ms / 1000
        self._begin_opening()
        try:
            self.alone = self._file.writers == 0 and self._take_lock()
            yield
        finally:
            if self._file.writers == 0:
                _unlock(self._file.descriptor)
            self._end_opening()

    def leave(self, on_last_exit: Callable[[], Any] = lambda: None) -> None:
        """Give the locks back, also if `enter` failed. The last writer to go calls `on_last_exit`."""
        if os.getpid() != self._pid:
            return
        file = self._file
        with file.opening:
            if self._writes:
                self._writes = False
                file.writers -= 1
                if file.writers == 0:
                    _end(file, on_last_exit)
        self._end_opening()
        _give_back(file)

    def _begin_opening(self) -> None:
        left = max(0.0, self._deadline - time.monotonic())
        if not self._file.opening.acquire(timeout=left):
            raise errors.Busy(waited_ms=self._busy_ms)
        self._opens = True

    def _end_opening(self) -> None:
        if self._opens:
            self._opens = False
            self._file.opening.release()

    def _take_lock(self) -> bool:
        """Take the lock of the file: True if it is exclusive, False if others write under the same name."""
        other_name_since: float | None = None
        descriptor = self._file.descriptor
        while True:
            if _try(descriptor, "LOCK_EX"):
                return True
            if _try(descriptor, "LOCK_SH"):
                if self._is_mark_locked():
                    return False
                _unlock(descriptor)
                other_name_since = other_name_since or time.monotonic()
                if time.monotonic() - other_name_since > _OTHER_NAME_S:
                    raise _under_another_name(self._path)
            self._wait()

    def _is_mark_locked(self) -> bool:
        """Whether any process has the mark next to this name locked."""
        if WINDOWS:
            return True
        try:
            descriptor = os.open(mark.path_of(self._path), os.O_RDONLY | _FLAGS)
        except FileNotFoundError:
            return False
        try:
            return not _try(descriptor, "LOCK_EX")
        finally:
            os.close(descriptor)

    def _open_mark(self) -> None:
        path, file = mark.path_of(self._path), self._file
        is_new = not os.path.exists(path)
        file.mark_descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        _share(file.mark_descriptor, file.descriptor)
        if is_new:
            Disk().sync_dir(os.path.dirname(path))
        descriptor = file.mark_descriptor
        self._wait_for(lambda: _try(descriptor, "LOCK_SH"))
        file.mark = StoreMarkFile(Disk().open_write(path))

    def _wait_for(self, done: Callable[[], bool]) -> None:
        while not done():
            self._wait()

    def _wait(self) -> None:
        if time.monotonic() > self._deadline:
            raise errors.Busy(waited_ms=self._busy_ms)
        time.sleep(_POLL_S)


def _shared(path: str) -> _File:
    """The file at a path. It is opened if this process does not have it open."""
    with _guard:
        status = os.stat(path)
        file = _files.get((status.st_dev, status.st_ino))
        if file is None:
            file = _File(path)
            status = os.fstat(file.descriptor)
            _files[status.st_dev, status.st_ino] = file
        if file.path != path and file.handles:
            raise _under_another_name(path)
        file.path = path
        file.handles += 1
        return file


def _end(file: _File, on_last_exit: Callable[[], Any]) -> None:
    """Release the locks of this process, the one of the name last."""
    if file.mark is not None:
        if not WINDOWS and _try(file.descriptor, "LOCK_EX"):
            on_last_exit()
        file.mark.close()
        file.mark = None
    _unlock(file.descriptor)
    if file.mark_descriptor is not None:
        _unlock(file.mark_descriptor)
        os.close(file.mark_descriptor)
        file.mark_descriptor = None


def _give_back(file: _File) -> None:
    with _guard:
        file.handles -= 1
        for key, other in list(_files.items()):
            if other.handles == 0 and _may_close(key, other.descriptor):
                del _files[key]
                os.close(other.descriptor)


def _may_close(key: tuple[int, int], own: int) -> bool:
    """Whether this process has no other descriptor of a file, so that closing this one drops no lock of SQLite."""
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return WINDOWS  # locks work differently there; on other systems it stays open, which costs a descriptor
    for name in names:
        with suppress(OSError, ValueError):
            status = os.fstat(int(name))
            if int(name) != own and (status.st_dev, status.st_ino) == key:
                return False
    return True


def _share(descriptor: int, shared: int) -> None:
    """Give a file the mode of another one, so that the same users may use it. Its owner always may."""
    mode = stat.S_IMODE(os.fstat(shared).st_mode) & 0o666 | 0o600
    if not WINDOWS and stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
        with suppress(PermissionError):  # only the owner can
            os.fchmod(descriptor, mode)


def _try(descriptor: int, how: str) -> bool:
    """Take a lock if it is free. On a system without such locks no handle is ever alone."""
    if WINDOWS:
        return how == "LOCK_SH"
    try:
        fcntl.flock(descriptor, getattr(fcntl, how) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    if not WINDOWS:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _under_another_name(path: str) -> errors.StoreLocked:
    owner = "a process that opened it under another name, or whose mark was removed"
    return errors.StoreLocked(path=path, owner=owner)


def _forget() -> None:
    """Close the files in a forked child: the locks belong to the parent, and must end with it."""
    global _guard
    _guard = threading.Lock()
    for file in _files.values():
        os.close(file.descriptor)
        if file.mark_descriptor is not None:
            os.close(file.mark_descriptor)
    _files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
