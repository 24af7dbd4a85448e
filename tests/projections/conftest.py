"""Stores for projections: one of each engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tallystick

ENGINES = ("memory", "sqlite", "files")


def url_of(engine: str, place: Path) -> str:
    """The URL of a store of this engine inside a directory."""
    return "memory:" if engine == "memory" else f"{engine}:{place}/{engine}.log"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn."""
    return str(request.param)


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., tallystick.Store]]:
    """Open stores that are closed in the end."""
    opened: list[tallystick.Store] = []

    def opening(engine: str = "memory", **options: object) -> tallystick.Store:
        opened.append(tallystick.open(url_of(engine, tmp_path), **options))
        return opened[-1]

    yield opening
    for store in opened:
        store.close()
