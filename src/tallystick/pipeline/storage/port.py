"""The port to where an archive is: files by name, and a way to commit that only one writer can win.

A place has no rename and no append. Files are written whole and read whole; `put_new` creates a name that nobody has,
and whoever comes second is told so. `directory` and `object_storage` are the two kinds.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, runtime_checkable
from urllib.parse import unquote, urlsplit

from tallystick import errors
from tallystick.store.stating import is_url, shown

_STORES = frozenset({"s3", "s3a", "gs", "abfs", "abfss"})
_MUST = "a directory by its path, file:///PATH, s3://BUCKET/PATH (or s3a:), gs://BUCKET/PATH or abfss://…"


class Taken(Exception):
    """Somebody else has created that name."""


@runtime_checkable
class Place(Protocol):
    """Where an archive is. Its text is how users name it; it travels to workers, and holds nothing that is open."""

    def names(self, folder: str) -> list[str]:
        """The files of a folder, by their names from the place on, in order. A folder that is not there has none."""
        ...

    def names_below(self, folder: str) -> list[str]:
        """The files of a folder and of all folders in it, in order; the whole place, if no folder is named."""
        ...

    def read(self, name: str) -> bytes:
        """A small file; `FileNotFoundError` if it is not there."""
        ...

    def size(self, name: str) -> int | None:
        """The bytes of a file; None if it is not there."""
        ...

    def put_new(self, name: str, data: bytes) -> None:
        """Create a file, whole and durable, or raise `Taken`: of two who try, one succeeds."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write a small file, in place of one that may be there; readers see the old one or the new one."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def opened(self, name: str) -> AbstractContextManager[Path]:
        """The bytes of a file as a path on this machine; what is read there twice is the same."""
        ...

    def drafted(self) -> AbstractContextManager[Path]:
        """A path on this machine to write a file at. It is gone afterwards, if nobody kept it."""
        ...

    def keep(self, draft: Path, name: str) -> None:
        """Make a draft the file of this name, durably; `sha256` of it has to be asked for afterwards."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Keep other writers out for a while, where the place can do that. Nothing depends on it."""
        ...


def scheme_of(given: str | Path) -> str | None:
    """What a URL begins with; None for a path."""
    return str(given).partition(":")[0].lower() if is_url(str(given)) else None


def place_of(given: str | Path | Place, *, what: str = "archive") -> Place:
    """The place that somebody named: by a path, or by a URL. What is not understood is refused by its name."""
    from tallystick.pipeline.storage.directory import Disk

    if not isinstance(given, str | Path):
        return given
    scheme = scheme_of(given)
    if scheme is None:
        return Disk(Path(given).absolute())
    if isinstance(given, str) and scheme == "file":
        return Disk(_path_of(given))
    if isinstance(given, str) and scheme in _STORES:
        from tallystick.pipeline.storage.object_storage import ObjectStore

        return ObjectStore.at(given)
    raise errors.InvalidValue(what=what, value=_told(given), must=_MUST)


def disk_of(given: str | Path, *, what: str) -> Path:
    """The directory that somebody named, for what can only be in one."""
    from tallystick.pipeline.storage.directory import Disk

    found = place_of(given) if scheme_of(given) in (None, "file") and not _is_mangled(given) else None
    if not isinstance(found, Disk):
        raise errors.InvalidValue(what=what, value=_told(given), must="a directory, by its path or as file:///PATH")
    return found.directory


def _told(given: str | Path) -> str:
    """What was given, for an error: without its password, and without what may sign it."""
    return shown(str(given)).partition("?")[0]


def _is_mangled(given: str | Path) -> bool:
    """Whether a URL was made a path, which lost a slash."""
    return isinstance(given, Path) and scheme_of(given) is not None


def _path_of(url: str) -> Path:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or parts.query or parts.fragment:
        raise errors.InvalidValue(what="archive", value=_told(url), must="file:///PATH, with the whole path")
    return Path(path)
