"""The files of a run: artifacts in one directory, written atomically, identified by their SHA-256."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import msgspec

from tallystick import errors

_COPY_BYTES = 1 << 20


class Content(msgspec.Struct, frozen=True):
    """The content of a file: hash and size."""

    sha256: str
    bytes: int


class Workspace:
    """A directory of artifacts."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._synced: set[Path] = set()  # directories whose own names are durable

    def path(self, place: str) -> Path:
        """The file of an artifact."""
        return self.directory / place

    def look(self, place: str) -> Content | None:
        """The current content of a file; None if it does not exist."""
        try:
            with self.path(place).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256")
                return Content(digest.hexdigest(), file.tell())
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as problem:  # a cycle of links, no permission: it may exist, so nothing is made again
            raise errors.ReadFailed(path=str(self.path(place)), reason=problem.strerror or str(problem)) from problem

    def settle(self, place: str) -> Content | None:
        """Make a file durable and return its content: an artifact is recorded only when a power loss cannot take it."""
        found = self.look(place)
        if found is not None:
            self._settle(self.path(place))
        return found

    def _settle(self, path: Path) -> None:
        """Sync a file, its name, and the names of all directories that lead to it, the workspace's own included."""
        _sync(path)
        _sync(path.parent)
        directory, top = path.parent.absolute(), self.directory.absolute()
        while directory not in self._synced and directory.is_relative_to(top):
            _sync(directory.parent)
            self._synced.add(directory)
            directory = directory.parent

    def write(self, place: str, data: bytes) -> None:
        """Replace a file. A crash leaves the old one or the new one."""
        path = self.path(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            temporary.write_bytes(data)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def take(self, source: Path, place: str) -> None:
        """Copy a file into the workspace."""
        path = self.path(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        shutil.copyfile(source, temporary)
        os.replace(temporary, path)
        self._settle(path)


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # directories cannot be opened on this system
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
