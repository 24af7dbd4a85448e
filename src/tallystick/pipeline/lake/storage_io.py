"""File access for `pyiceberg`, through the same storage as archives.

So a table in an object store needs the extra `objects` and no other client, credentials come from the environment, and
a file in a directory is durable before a commit names it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO, InputFile, OutputFile

from tallystick.pipeline.storage.directory import STAGING, DirectoryStorage
from tallystick.pipeline.storage.port import Storage


def location_of(storage: Storage) -> str:
    """The URL of a storage in Iceberg's metadata."""
    return (
        storage.directory.as_uri()
        if isinstance(storage, DirectoryStorage)
        else str(storage).replace("s3a://", "s3://", 1)
    )


def name_of(storage: Storage, location: str) -> str:
    """The name of a file in a storage; its whole URL if it is elsewhere."""
    return location.removeprefix(location_of(storage) + "/")


class StorageIO(FileIO):
    """The files of one storage."""

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self._storage = storage

    def new_input(self, location: str) -> InputFile:
        """A file to read."""
        return _Input(self._storage, location)

    def new_output(self, location: str) -> OutputFile:
        """A file to write."""
        return _Output(self._storage, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file."""
        found = location if isinstance(location, str) else location.location
        self._storage.remove(name_of(self._storage, found))


class _Input(InputFile):
    def __init__(self, storage: Storage, location: str) -> None:
        super().__init__(location)
        self._storage, self._name = storage, name_of(storage, location)

    def __len__(self) -> int:
        size = self._storage.size(self._name)
        if size is None:
            raise FileNotFoundError(self.location)
        return size

    def exists(self) -> bool:
        """Whether the file exists."""
        return self._storage.size(self._name) is not None

    def open(self, seekable: bool = True) -> Any:
        """The bytes of the file: large files are read elsewhere, by pyarrow."""
        return BytesIO(self._storage.read(self._name))


class _Output(OutputFile):
    def __init__(self, storage: Storage, location: str) -> None:
        super().__init__(location)
        self._storage, self._name = storage, name_of(storage, location)

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        """Whether the file exists."""
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        """The same file, for reading."""
        return _Input(self._storage, self.location)

    def create(self, overwrite: bool = False) -> Any:
        """A stream; closing it creates the file."""
        return _Draft(self._storage, self._name)


class _Draft:
    """A draft that becomes the file when it is closed, and is deleted after an error."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage, self._name = storage, name
        self._context: AbstractContextManager[Path] = storage.drafted()
        self._path = self._context.__enter__()
        self._file = self._path.open("wb")

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        """Store the draft under its name."""
        if self._file.closed:
            return
        self._file.close()
        try:
            self._storage.keep(self._path, self._name)
        except FileNotFoundError:  # a run with `forget` removed the draft, and has committed
            raise CommitFailedException(f"the draft of {self._name} was removed") from None
        finally:
            self._context.__exit__(None, None, None)

    def __enter__(self) -> _Draft:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            self.close()
            return
        with suppress(OSError):
            self._file.close()
        self._context.__exit__(None, None, None)


def staged(storage: Storage) -> list[str]:
    """Drafts of data files, of runs that were killed or are under way."""
    return (
        [name for name in storage.names_below(STAGING) if name.endswith(".parquet")]
        if isinstance(storage, DirectoryStorage)
        else []
    )
