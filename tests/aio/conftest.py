"""A place for a store of each engine, and a file system that counts what is synced."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tallystick.engines.disk import Disk
from tallystick.testing.faults import FaultyFileSystem

BOUND_SECONDS = 60.0

T = TypeVar("T")

Run = Callable[[Coroutine[Any, Any, T]], T]


@pytest.fixture(params=["memory", "files", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new store of each engine."""
    return "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'log'}"


@pytest.fixture(params=["files", "sqlite"])
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new store of each engine that can be opened again."""
    return f"{request.param}:{tmp_path / 'log'}"


@pytest.fixture
def files_url(tmp_path: Path) -> str:
    """A new file log."""
    return f"files:{tmp_path / 'log'}"


@pytest.fixture
def run() -> Iterator[Run[Any]]:
    """Run a coroutine in an event loop of its own; one that hangs fails, and so does an error that nobody was told."""

    def run_(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(_bounded(work))

    yield run_
    gc.collect()  # a future whose error was never looked at complains when it goes


async def _bounded(work: Coroutine[Any, Any, T]) -> T:
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    answer = await asyncio.wait_for(work, BOUND_SECONDS)
    assert unheard == []
    return answer


@pytest.fixture
def counted() -> FaultyFileSystem:
    """The real disk, with its operations counted and no fault yet."""
    return FaultyFileSystem(Disk())
