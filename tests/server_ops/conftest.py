"""Stores and services for the tests of operating: real ones, on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["files", "sqlite", "ndjson"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a store, once with each engine that keeps its tokens on this disk."""
    return f"{request.param}:{tmp_path / 'log'}"
