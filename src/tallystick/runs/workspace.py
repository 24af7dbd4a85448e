"""The files of a run: artifacts below one directory, written whole or not at all, named by their SHA-256."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import msgspec

from tallystick import errors

_COPY_BYTES = 1 << 20


class Content(msgspec.Struct, frozen=True):
    """What a file holds."""

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
        """What a file holds now; None if there is none."""
        try:
            with self.path(place).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256")
                return Content(digest.hexdigest(), file.tell())
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as problem:  # a circle of links, no permission: it may be there, so nothing is made again
            raise errors.ReadFailed(path=str(self.path(place)), reason=problem.strerror or str(problem)) from problem

    def settle(self, place: str) -> Content | None:
        """Make a file durable, and say what it holds: nobody is told of an artifact that a power loss could take."""
        found = self.look(place)
        if found is not None:
            self._settle(self.path(place))
        return found

    def _settle(self, path: Path) -> None:
        """A file, its name, and the names of the directories that lead to it from beside the workspace on."""
        _sync(path)
        _sync(path.parent)
        directory, top = path.parent.absolute(), self.directory.absolute()
        while directory not in self._synced and directory.is_relative_to(top):
            _sync(directory.parent)
            self._synced.add(directory)
            directory = directory.parent

    def write(self, place: str, data: bytes) -> None:
        """Replace a file: a crash leaves the old one or the new one."""
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
        """Copy a file in from elsewhere."""
        path = self.path(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        shutil.copyfile(source, temporary)
        os.replace(temporary, path)
        self._settle(path)


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # a directory cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
