"""Tasks are not given what was changed underneath."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import tallystick
import tallystick.aio
from tallystick import errors
from tallystick.testing.builders import event
from tallystick.testing.tamper import CHANGES, tamper


@pytest.mark.security
@pytest.mark.parametrize("engine", ["files", "sqlite"])
def test_a_follower_is_refused_the_changed_event(tmp_path: Path, engine: str) -> None:
    """SAFE-01: `follow` gives what is before it, and then raises by the name of the event."""
    url, seen = f"{engine}:{tmp_path}/log", []
    with tallystick.open(url) as store:
        for number in range(1, 4):
            store.append("run/a", event(number))
    tamper(url, "run/a", 2, CHANGES["payload"])

    async def follow() -> None:
        async with await tallystick.aio.open(url, readonly=True) as shop:
            async for found in shop.follow():
                seen.append(found.seq)

    with pytest.raises(errors.Damaged, match="run/a seq 2"):
        asyncio.run(follow())
    assert seen == [1]
