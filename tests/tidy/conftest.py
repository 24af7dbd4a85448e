"""The text of the project, for the tidy tests."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tallystick"
FOLDERS = ("src", "examples", "tests", "bench")


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file, parsed once."""
    return ast.parse(path.read_text("utf-8"), filename=str(path))


def python_files(*folders: str) -> list[Path]:
    """Every Python file below these folders of the project; all our files if none is named."""
    return sorted(path for folder in folders or FOLDERS for path in (ROOT / folder).rglob("*.py"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's root."""
    return ROOT


@pytest.fixture(scope="session")
def code() -> Callable[..., dict[str, ast.Module]]:
    """The syntax trees of the files below some folders, by their path from the root."""
    return lambda *folders: {path.relative_to(ROOT).as_posix(): parsed(path) for path in python_files(*folders)}
