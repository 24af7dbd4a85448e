"""The port to where an archive or a table is stored: files by name, and a commit that only one writer can win.

Storage has no rename and no append. Files are written whole and read whole. `put_new` creates a name that does not
exist, and raises `Taken` for the second who tries. The two kinds are `directory` and `object_storage`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable
from urllib.parse import unquote, urlsplit

from tallystick import errors
from tallystick.store.urls import is_url, redacted

_STORES = frozenset({"s3", "s3a", "gs", "abfs", "abfss"})
_MUST = "a directory by its path, file:///PATH, s3://BUCKET/PATH (or s3a:), gs://BUCKET/PATH or abfss://…"
_COMMIT_TRIES = 5

Done = TypeVar("Done")


class Taken(Exception):
    """Somebody else has created that name."""


@runtime_checkable
class Storage(Protocol):
    """A directory, or a prefix in an object store. Its text is its path or URL. It travels to workers by pickle."""

    def names(self, folder: str) -> list[str]:
        """The files of a folder, in order, by their names from the root of the storage. A missing folder has none."""
        ...

    def names_below(self, folder: str) -> list[str]:
        """The files of a folder and of all folders below it, in order; of the whole storage if `folder` is empty."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of a small file; `FileNotFoundError` if it does not exist."""
        ...

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        ...

    def put_new(self, name: str, data: bytes) -> None:
        """Create a file, whole and durable, or raise `Taken`: of two writers, one succeeds."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write a small file, or replace it; readers see the old one or the new one."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        ...

    def opened(self, name: str) -> AbstractContextManager[Path]:
        """The bytes of a file as a path on this machine; a second read of the path gives the same bytes."""
        ...

    def drafted(self) -> AbstractContextManager[Path]:
        """A path on this machine to write a file at. The draft is deleted at the end, unless `keep` was called."""
        ...

    def keep(self, draft: Path, name: str) -> None:
        """Make a draft the file of this name, durably. The caller reads it back to check its hash."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Keep other writers out while inside, if the storage can do that. Correctness does not depend on it."""
        ...


def retry_taken(work: Callable[[], Done], *, busy: errors.TallyError) -> Done:
    """The result of `work`, repeated whenever another run has committed first; `busy` if that happens too often."""
    for _ in range(_COMMIT_TRIES):
        try:
            return work()
        except Taken:
            continue
    raise busy


def require_conditional_writes(storage: Storage, name: str, data: Callable[[], bytes], *, what: str) -> None:
    """Refuse storage that creates a name twice: some stores ignore the condition of a write, and every run would win.

    `data` makes other bytes on each call: a repeated write of the same bytes counts as the first one.
    """
    for _ in range(2):  # the first write may be the one that creates the name
        try:
            storage.put_new(name, data())
        except Taken:
            return
    must = "where a name can be created only once: this store ignores the condition of a write (If-None-Match: *)"
    raise errors.InvalidValue(what=what, value=str(storage), must=must)


def scheme_of(given: str | Path) -> str | None:
    """The scheme of a URL; None for a path."""
    return str(given).partition(":")[0].lower() if is_url(str(given)) else None


def storage_at(given: str | Path | Storage, *, what: str = "archive") -> Storage:
    """The storage at a path or a URL. Anything else is refused."""
    from tallystick.pipeline.storage.directory import DirectoryStorage

    if not isinstance(given, str | Path):
        return given
    scheme = scheme_of(given)
    if scheme is None:
        return DirectoryStorage(Path(given).absolute())
    if isinstance(given, str) and scheme == "file":
        return DirectoryStorage(_path_of(given))
    if isinstance(given, str) and scheme in _STORES:
        from tallystick.pipeline.storage.object_storage import ObjectStorage

        return ObjectStorage.at(given)
    raise errors.InvalidValue(what=what, value=_redacted(given), must=_MUST)


def directory_at(given: str | Path, *, what: str) -> Path:
    """The directory at a path or a file URL, for what cannot be in an object store."""
    from tallystick.pipeline.storage.directory import DirectoryStorage

    found = storage_at(given) if scheme_of(given) in (None, "file") and not _is_mangled(given) else None
    if not isinstance(found, DirectoryStorage):
        raise errors.InvalidValue(what=what, value=_redacted(given), must="a directory, by its path or as file:///PATH")
    return found.directory


def _redacted(given: str | Path) -> str:
    """The text for an error: without a password, and without a query that may hold a signature."""
    return redacted(str(given)).partition("?")[0]


def _is_mangled(given: str | Path) -> bool:
    """Whether a URL was turned into a `Path`, which drops one of its slashes."""
    return isinstance(given, Path) and scheme_of(given) is not None


def _path_of(url: str) -> Path:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or parts.query or parts.fragment:
        raise errors.InvalidValue(what="archive", value=_redacted(url), must="file:///PATH, with the whole path")
    return Path(path)
