"""Stores in a fresh directory, and children that use them in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store

Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of the store of this test."""
    return str(tmp_path / "log.db")


@pytest.fixture
def reopen(path: str) -> Iterator[Callable[..., Store]]:
    """Open the store of this test, any number of times. All handles are closed at the end."""
    opened: list[Store] = []

    def open_(**options: Any) -> Store:
        opened.append(tallystick.open(f"sqlite:{path}", **options))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(reopen: Callable[..., Store]) -> Store:
    """An open store."""
    return reopen()


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Run Python code in another process. Processes that still run at the end are killed."""
    children: list[subprocess.Popen[str]] = []

    def run(code: str, *arguments: str, before: tuple[str, ...] = (), **options: Any) -> subprocess.Popen[str]:
        command = [*before, sys.executable, "-c", code, *arguments]
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )
        children.append(child)
        return child

    yield run
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def some() -> Callable[..., list[NewEvent]]:
    """A number of events to append."""

    def make(count: int, type_: str = "thing.done", **meta: Any) -> list[NewEvent]:
        return [NewEvent(type_, {"n": number}, meta=meta or None) for number in range(count)]

    return make
