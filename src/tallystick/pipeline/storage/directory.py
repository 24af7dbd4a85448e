"""Storage in a directory, which every process reaches by the same path.

Drafts are written in `staging/` and renamed when they are durable. A name that must be new is linked, not renamed:
linking fails if the name exists. A lock (flock) keeps two runs on one machine from doing the same work; which of two
commits wins is decided by the link alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tallystick import errors
from tallystick.pipeline.storage.port import Taken

STAGING = "staging"
_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
)  # the errors of a file system without hard links
_STAGED = re.compile(r"(events|heads|part)-[0-9a-zA-Z.-]+\.(parquet|json)")


class DirectoryStorage(msgspec.Struct, frozen=True):
    """A directory."""

    directory: Path

    def __str__(self) -> str:
        return str(self.directory)

    def names(self, folder: str) -> list[str]:
        """The files of a folder; anything that is not a file is left out."""
        there = self.directory / folder
        found = there.iterdir() if there.is_dir() else ()
        return sorted(f"{folder}/{path.name}" for path in found if path.is_file())

    def names_below(self, folder: str) -> list[str]:
        """The files of a folder and of all folders below it."""
        found = (path for path in (self.directory / folder).rglob("*") if path.is_file())
        return sorted(path.relative_to(self.directory).as_posix() for path in found)

    def read(self, name: str) -> bytes:
        """The bytes of a small file."""
        return (self.directory / name).read_bytes()

    def size(self, name: str) -> int | None:
        """The size of a file in bytes."""
        try:
            return (self.directory / name).stat().st_size
        except FileNotFoundError:
            return None

    def put_new(self, name: str, data: bytes) -> None:
        """Create a file: link a durable draft to its name."""
        with self._written(name, data) as draft:
            self._link(draft, self.directory / name)
        sync_directory((self.directory / name).parent)

    def _link(self, draft: Path, path: Path) -> None:
        """Link a draft to a name. If the link exists already, NFS repeated a request whose answer was lost."""
        try:
            os.link(draft, path)
        except FileExistsError:
            if not path.samefile(draft):
                raise Taken from None
        except OSError as problem:
            if problem.errno not in _NO_LINKS:
                raise
            must = f"on a file system with hard links ({problem.strerror})"
            raise errors.InvalidValue(what="archive", value=str(self), must=must) from None

    def put(self, name: str, data: bytes) -> None:
        """Write or replace a file in one step."""
        with self._written(name, data) as draft:
            draft.rename(self.directory / name)
        sync_directory((self.directory / name).parent)

    @contextmanager
    def _written(self, name: str, data: bytes) -> Iterator[Path]:
        (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
        with self.drafted(".json") as draft:
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield draft

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.directory / name).unlink(missing_ok=True)

    @contextmanager
    def opened(self, name: str) -> Iterator[Path]:
        """The path of the file itself: nobody writes to a file that has its name."""
        yield self.directory / name

    @contextmanager
    def drafted(self, ending: str = ".parquet") -> Iterator[Path]:
        """A path in `staging/`."""
        staging = self.directory / STAGING
        staging.mkdir(parents=True, exist_ok=True)
        draft = staging / f"part-{uuid.uuid4().hex}{ending}"
        try:
            yield draft
        finally:
            draft.unlink(missing_ok=True)

    def keep(self, draft: Path, name: str) -> None:
        """Make a draft durable and rename it."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.rename(path)
        sync_directory(path.parent)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only run here. The lock ends with the process. Drafts that an earlier run left are removed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise errors.ArchiveLocked(path=str(self)) from None
            self._clear_staging()
            yield
            self._clear_staging()

    def staged(self) -> list[str]:
        """The drafts in `staging/`; earlier versions put them in folders of their own."""
        found = (path for path in (self.directory / STAGING).rglob("*") if _STAGED.fullmatch(path.name))
        return sorted(str(path.relative_to(self.directory)) for path in found if path.is_file())

    def _clear_staging(self) -> None:
        """Remove the drafts that a run left, and the folders that are empty then."""
        for name in self.staged():
            self.remove(name)
        folders = [path for path in (self.directory / STAGING).rglob("*") if path.is_dir()]
        for folder in [*sorted(folders, reverse=True), self.directory / STAGING]:
            with suppress(OSError):  # it holds files of others, or does not exist
                folder.rmdir()


def sync_directory(directory: Path) -> None:
    """Fsync a directory, so that the names in it are durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
