"""The rules of Windows for files and locks, on another system. For tests of the file system port.

- A file that any process has open cannot be renamed, replaced or removed. /proc tells which processes have it open.
- There is no positioned read or write, no fdatasync, no flock(2), and directories cannot be opened.
- `msvcrt.locking` locks bytes for one open file, also against other open files of the same process.

`child_environment` makes Python processes follow the same rules from the start.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import subprocess  # noqa: F401 - it looks for msvcrt when it is imported, and must not find ours
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from tallystick.engines import disk

_OFD_SETLK = 37  # fcntl.h of Linux: a lock of the open file, not of the process
_FLOCK = "hhqqi0q"
_ROOT = Path(__file__).parents[2]
_SITE = "from tests.windows_rules import rules\nrules.install(rules.ForGood())\n"


class Patch(Protocol):
    """What `pytest.MonkeyPatch` does."""

    def setattr(self, target: Any, name: str, value: object) -> None: ...
    def delattr(self, target: Any, name: str) -> None: ...
    def setitem(self, dic: Any, name: str, value: object) -> None: ...


class ForGood:
    """Changes that stay until the process ends."""

    def setattr(self, target: Any, name: str, value: object) -> None:
        setattr(target, name, value)

    def delattr(self, target: Any, name: str) -> None:
        delattr(target, name)

    def setitem(self, dic: Any, name: str, value: object) -> None:
        dic[name] = value


def install(patch: Patch) -> None:
    """Make this process follow the rules."""
    for name in ("rename", "replace"):
        patch.setattr(os, name, _refusing_both(getattr(os, name)))
    for name in ("unlink", "remove"):
        patch.setattr(os, name, _refusing(getattr(os, name)))
    for name in ("pread", "pwrite", "fdatasync"):
        patch.delattr(os, name)
    patch.setattr(os, "supports_dir_fd", frozenset())
    patch.setattr(disk, "WINDOWS", True)
    patch.setitem(sys.modules, "msvcrt", _msvcrt())


def child_environment(place: Path) -> dict[str, str]:
    """Variables that make a new Python process follow the rules too. `place` is a directory for its file."""
    (place / "sitecustomize.py").write_text(_SITE)
    return {"PYTHONPATH": os.pathsep.join([str(place), str(_ROOT), os.environ.get("PYTHONPATH", "")])}


def holders(path: str) -> Iterator[str]:
    """The open files of all processes, as far as they can be read, that are the file of this name."""
    try:
        wanted = os.stat(path, follow_symlinks=False)
    except OSError:
        return
    if not stat.S_ISREG(wanted.st_mode):
        return
    for process in filter(str.isdecimal, os.listdir("/proc")):
        try:
            names = os.listdir(f"/proc/{process}/fd")
        except OSError:  # it ended, or it is not ours
            continue
        for name in names:
            try:
                found = os.stat(f"/proc/{process}/fd/{name}")
            except OSError:
                continue
            if os.path.samestat(found, wanted):
                yield f"/proc/{process}/fd/{name}"


def _require_free(path: str) -> None:
    for holder in holders(path):
        raise PermissionError(errno.EACCES, f"the file is in use by another process ({holder})", path)


def _refusing(act: Callable[..., None]) -> Callable[..., None]:
    def refusing(path: Any, **options: Any) -> None:
        _require_free(os.fspath(path))
        act(path, **options)

    return refusing


def _refusing_both(act: Callable[..., None]) -> Callable[..., None]:
    def refusing(old: Any, new: Any, **options: Any) -> None:
        _require_free(os.fspath(old))
        _require_free(os.fspath(new))
        act(old, new, **options)

    return refusing


def _msvcrt() -> Any:
    import fcntl

    module: Any = ModuleType("msvcrt")
    module.LK_NBLCK = 2

    def locking(descriptor: int, mode: int, size: int) -> None:
        """Lock bytes from the current offset. If another open file has the lock, raise EACCES, as Windows does."""
        assert mode == module.LK_NBLCK
        begin = os.lseek(descriptor, 0, os.SEEK_CUR)
        wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, begin, size, 0)
        try:
            fcntl.fcntl(descriptor, _OFD_SETLK, wanted)
        except OSError as problem:
            raise PermissionError(errno.EACCES, "Permission denied") from problem

    module.locking = locking
    return module
