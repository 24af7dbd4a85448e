"""Both file systems as one fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.engines.disk import Disk
from tallystick.store.filesystem import FileSystem
from tallystick.testing.simulated_disk import SimulatedDisk


@pytest.fixture(params=["disk", "simulated"])
def files(request: pytest.FixtureRequest) -> FileSystem:
    """A file system."""
    return Disk() if request.param == "disk" else SimulatedDisk()


@pytest.fixture
def root(files: FileSystem, tmp_path: Path) -> str:
    """A directory on it."""
    path = tmp_path.as_posix()
    files.make_dir(path)
    return path
