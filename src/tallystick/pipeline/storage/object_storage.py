"""Storage in an object store: S3 and stores with its protocol, Google Cloud Storage, Azure.

`put_new` is a conditional write (`If-None-Match: *` on S3), so the store decides which of two commits wins. Files are
read and written through unlinked files in the worker's temporary directory, so a killed worker leaves none of them.
Credentials and settings come from the environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`), never from the URL.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tallystick import errors
from tallystick.pipeline.storage.port import Taken

_RETRIES: Any = {"max_retries": 8, "retry_timeout": timedelta(seconds=60)}
_TRIES, _PAUSE_SECONDS = 5, 0.2
_CHUNK_BYTES = 4 << 20
_QUERY = re.compile(r"\?[^\s:]*")  # the query of an address in an error: it may hold a signature
_REASON_CHARACTERS_MAX = 300


class ObjectStorage(msgspec.Struct, frozen=True):
    """A prefix of a bucket or container."""

    url: str

    @classmethod
    def at(cls, url: str) -> ObjectStorage:
        """The storage at a URL; refused if the URL has more than a path, or the library is missing or rejects it."""
        parts = urlsplit(url)
        if parts.query or parts.fragment or not parts.netloc or ":" in parts.netloc:
            must = "SCHEME://BUCKET/PATH and no more; settings and secrets come from the environment"
            value = f"{parts.scheme}://…" if ":" in parts.netloc else url.partition("?")[0]
            raise errors.InvalidValue(what="archive", value=value, must=must)
        found = cls(url.rstrip("/"))
        found._store()
        return found

    def __str__(self) -> str:
        return self.url

    def _store(self) -> Any:
        """The client of the store, one per process."""
        return _connected(self.url, os.getpid())

    def names(self, folder: str) -> list[str]:
        """The files of a folder."""
        return [name for name in self.names_below(folder) if name.rpartition("/")[0] == folder]

    def names_below(self, folder: str) -> list[str]:
        """The files of a folder and of all folders below it."""
        with self._translated_errors():
            found = self._store().list(f"{folder}/" if folder else None)
            return sorted(item["path"] for page in found for item in page)

    def read(self, name: str) -> bytes:
        """The bytes of a small file."""
        with self._translated_errors():
            return bytes(self._store().get(name).bytes())

    def size(self, name: str) -> int | None:
        """The size of a file in bytes."""
        try:
            with self._translated_errors():
                found: int = self._store().head(name)["size"]
                return found
        except FileNotFoundError:
            return None

    def put_new(self, name: str, data: bytes) -> None:
        """Create a file by a conditional write. If it exists with these bytes, our own write succeeded."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        for _ in range(_TRIES):
            with self._translated_errors():
                try:
                    self._store().put(name, data, mode="create")
                    return
                except (AlreadyExistsError, PreconditionError):
                    found = self._found(name)
            if found == data:
                return
            if found is not None:
                raise Taken
            time.sleep(_PAUSE_SECONDS)  # a write is under way, and it may be our own: try again
        raise errors.PlaceUnreachable(path=self.url, reason=f"it refuses to create {name}, and does not have it")

    def _found(self, name: str) -> bytes | None:
        try:
            return self.read(name)
        except FileNotFoundError:
            return None

    def put(self, name: str, data: bytes) -> None:
        """Write a small file; a store replaces whole objects."""
        with self._translated_errors():
            self._store().put(name, data)

    def remove(self, name: str) -> None:
        """Remove a file."""
        with self._translated_errors():
            try:
                self._store().delete(name)
            except FileNotFoundError:
                return

    @contextmanager
    def opened(self, name: str) -> Iterator[Path]:
        """A temporary copy of the file, without a name."""
        with tempfile.TemporaryFile() as copy:
            with self._translated_errors():
                for chunk in self._store().get(name).stream(min_chunk_size=_CHUNK_BYTES):
                    copy.write(chunk)
            copy.flush()
            yield Path(f"/dev/fd/{copy.fileno()}")

    @contextmanager
    def drafted(self) -> Iterator[Path]:
        """A temporary file without a name on this machine."""
        with tempfile.TemporaryFile() as draft:
            yield Path(f"/dev/fd/{draft.fileno()}")

    def keep(self, draft: Path, name: str) -> None:
        """Send a draft to the store."""
        with self._translated_errors(), draft.open("rb") as file:
            self._store().put(name, file)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nothing: an object store has no locks that end with a process."""
        yield

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise errors of the store as `PlaceUnreachable`, with the URL."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as problem:
            if "NoSuchBucket" in str(problem):
                raise errors.PlaceUnreachable(path=self.url, reason="the bucket does not exist") from None
            raise
        except BaseError as problem:
            raise errors.PlaceUnreachable(path=self.url, reason=_short(str(problem))) from None


def _short(text: str) -> str:
    """The first line of an error of the client, without parts that may be secret."""
    return _QUERY.sub("", text.partition("\n")[0])[:_REASON_CHARACTERS_MAX]


@lru_cache(maxsize=32)
def _connected(url: str, process: int) -> Any:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ModuleNotFoundError as missing:
        raise errors.ObjectsMissing(library=missing.name or "obstore") from missing
    try:
        return from_url(url, retry_config=_RETRIES)
    except (BaseError, ValueError) as problem:
        raise errors.PlaceUnreachable(path=url, reason=_short(str(problem))) from None


def disconnect() -> None:
    """Forget all clients; the next use connects with the environment as it is then."""
    _connected.cache_clear()
