"""Processes that use one file log at the same time, and a disk that lets a test act within an operation."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent
from tallystick.engines.disk import Disk
from tallystick.store.filesystem import File
from tallystick.testing.builders import text
from tallystick.testing.faults import FaultyFile, FaultyFileSystem

ACTOR = Path(__file__).with_name("actor.py")
BOUND_SECONDS = 60


class Actor:
    """A running actor. If it prints nothing for a minute it is killed, so that the test fails and does not hang."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, str(ACTOR), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said: list[Any] = []

    def line(self) -> Any:
        """The next line that it prints; an error if it ended instead."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, self.complaint()
        self.said.append(json.loads(text))
        return self.said[-1]

    def complaint(self) -> str:
        """Why it ended."""
        _, complaint = self.process.communicate(timeout=BOUND_SECONDS)
        return f"the actor ended with {self.process.returncode}: {complaint}"

    def rest(self) -> list[Any]:
        """Everything that it prints until it ends. It must succeed."""
        out, complaint = self.process.communicate(timeout=BOUND_SECONDS)
        assert self.process.returncode == 0, complaint
        self.said += map(json.loads, out.splitlines())
        return self.said

    def kill(self) -> list[Any]:
        """Send SIGKILL. Returns all that it had printed."""
        self.process.kill()
        out, complaint = self.process.communicate(timeout=BOUND_SECONDS)
        assert not complaint, complaint
        self.said += [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith("\n")]
        return self.said


@pytest.fixture
def act() -> Iterator[Callable[..., Actor]]:
    """Start actors; those that still run at the end are killed."""
    actors: list[Actor] = []

    def start(*arguments: object) -> Actor:
        actors.append(Actor(*arguments))
        return actors[-1]

    yield start
    for actor in actors:
        actor.process.kill()
        actor.process.communicate()


@pytest.fixture(scope="session")
def described() -> Callable[[tallystick.Store], dict[str, Any]]:
    """A summary of a store, as the actors print it."""
    spec = importlib.util.spec_from_file_location("following_actor", ACTOR)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[[tallystick.Store], dict[str, Any]] = module.described
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory for the log of this test. It does not exist yet."""
    return tmp_path / "log"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """The file of the board."""
    path = tmp_path / "board"
    path.write_bytes(bytes(16))
    return path


class HookedDisk(FaultyFileSystem):
    """The real disk; `before` and `after` are called with each operation and its path, until they return False."""

    def __init__(self) -> None:
        super().__init__(Disk())
        self.before: Callable[[str, str], object] | None = None
        self.after: Callable[[str, str], object] | None = None

    def fail_if_due(self, operation: str, path: str) -> None:
        super().fail_if_due(operation, path)
        self._call("before", operation, path)

    def list(self, path: str) -> list[str]:
        found = super().list(path)
        self._call("after", "list", path)
        return found

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self._call("after", "rename", new)

    def open_write(self, path: str) -> File:
        return HookedFile(self, self.inner.open_write(path), path)

    def _call(self, when: str, operation: str, path: str) -> None:
        hook = getattr(self, when)
        if hook is not None:
            setattr(self, when, None)  # what a hook does is not hooked
            try:
                more = hook(operation, path)
            finally:
                setattr(self, when, hook)
            if more is False:
                setattr(self, when, None)


class HookedFile(FaultyFile):
    """A file that reports its syncs before they happen."""

    def sync(self) -> None:
        getattr(self._system, "_call")("before", "sync", self._path)  # noqa: B009
        super().sync()


@pytest.fixture
def hooked() -> HookedDisk:
    """A disk that calls back."""
    return HookedDisk()


@pytest.fixture(scope="session")
def large() -> NewEvent:
    """An event so large that a segment of 4 KiB cannot hold two."""
    return NewEvent("order.made", {"text": text(3000)})
