"""Records of commands are deleted automatically, after a day."""

from __future__ import annotations

from pathlib import Path

import pytest

import tallystick
from tallystick.commands import CommandKey, Commands
from tallystick.scheduler import Scheduler
from tallystick.state.policy import Policy
from tallystick.testing.clock import ManualClock
from tests.projections import victims

HOUR = 3600


@pytest.mark.parametrize("engine", ["memory", "sqlite", "files"])
def test_the_scheduler_forgets_old_commands(engine: str, tmp_path: Path) -> None:
    """CP-06: they are kept for at least 24 h, and not longer: tested with a clock that is moved by hand."""
    clock = ManualClock()
    url = "memory:" if engine == "memory" else f"{engine}:{tmp_path}/log"
    with tallystick.open(url, clock=clock) as store:
        scheduler = Scheduler(store, [], Policy())
        keys = [CommandKey("acme", "ada", "deploy", f"k{number}") for number in range(30)]
        for key in keys:
            Commands(store).run(key=key, request=key.key, handler=victims.decide)
            clock.advance(seconds=HOUR)
            scheduler.tick()
        kept = [key for key in keys if store.log.commands.load(key) is not None]
        assert kept == keys[-24:]
        assert store.stream_head("app/web") is not None
        assert not Commands(store).run(key=keys[0], request="k0", handler=victims.decide).repeated
