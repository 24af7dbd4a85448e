"""A file log in a fresh directory, a disk that lets a test act in the middle of an operation, and bit rot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store
from tallystick.engines.disk import Disk
from tallystick.engines.files import engine, index_file
from tallystick.store.filesystem import File
from tallystick.testing.builders import text
from tallystick.testing.faults import FaultyFile, FaultyFileSystem

Hook = Callable[[str, str], object]


class HookedDisk(FaultyFileSystem):
    """The real disk; `before` and `after` get each operation and its path, but not what a hook does."""

    def __init__(self) -> None:
        super().__init__(Disk())
        self.before: Hook | None = None
        self.after: Hook | None = None

    def tell(self, when: str, operation: str, path: str) -> None:
        """Call a hook, if there is one."""
        hook: Hook | None = getattr(self, when)
        if hook is not None:
            setattr(self, when, None)
            if hook(operation, path) is not False:  # False: it is done
                setattr(self, when, hook)

    def is_due(self, operation: str, path: str) -> bool:
        self.tell("before", operation, path)
        return super().is_due(operation, path)

    def open_write(self, path: str) -> File:
        return HookedFile(self, self.inner.open_write(path), path)

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.tell("after", "rename", new)


class HookedFile(FaultyFile):
    """A file that also reports a sync when it is done."""

    def sync(self) -> None:
        super().sync()
        self._system.tell("after", "sync", self._path)  # type: ignore[attr-defined]


@pytest.fixture
def hooked() -> HookedDisk:
    """A disk that calls back."""
    return HookedDisk()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where the log of this test lies; nothing is there yet."""
    return tmp_path / "log"


@pytest.fixture
def opened(directory: Path) -> Iterator[Callable[..., Store]]:
    """Open the log of this test, as often as asked; all are closed at the end."""
    stores: list[Store] = []

    def open_(**options: Any) -> Store:
        stores.append(tallystick.open(f"files:{directory}", **options))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


@pytest.fixture(scope="session")
def large() -> NewEvent:
    """An event of which two do not fit into a segment of 4 KiB."""
    return NewEvent("thing.happened", {"text": text(3000)})


@pytest.fixture
def flip() -> Callable[..., None]:
    """Flip one bit of a file."""

    def flip_(path: Path, at: int) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    return flip_


@pytest.fixture
def rot(flip: Callable[..., None]) -> Callable[[Path, str], None]:
    """Flip one bit in the middle of a section of an index file."""

    def rot_(path: Path, section: str) -> None:
        data, at = path.read_bytes(), index_file.HEADER_SIZE
        for number, name in enumerate(index_file.NAMES):
            size = index_file.SECTION.unpack_from(data, index_file.FIELDS.size + number * index_file.SECTION.size)[0]
            if name == section:
                assert size
                flip(path, at + size // 2)
            at += size

    return rot_


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on nothing stays in the caches of index sections and of stream heads: all is read from the files."""

    def forget() -> None:
        monkeypatch.setattr(index_file.SectionCache, "get", lambda self, key: None)
        monkeypatch.setattr(engine.FilesLog, "_note_heads", lambda self, heads: self._heads.clear())

    return forget
