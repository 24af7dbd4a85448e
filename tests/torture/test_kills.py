"""A few of the kills that `make torture` does by the hundred."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from . import kills

KILLS = 30

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the writer forks")


@pytest.mark.parametrize("engine", kills.ENGINES)
def test_nothing_is_lost_and_nothing_invented(engine: str, tmp_path: Path) -> None:
    """LH-19, SAFE-04: appends, commands, prunes, erasures and rows are whole or absent after every kill."""
    assert kills.survived(kills.urls(engine, tmp_path), kills=KILLS, seed=11) > KILLS
