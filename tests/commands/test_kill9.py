"""kill -9 around a command's decision and its commit: one effect, one response."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

import tallystick
from tallystick.commands import CommandKey, Commands
from tallystick.store.verify import verify
from tests.projections import victims

ROUNDS = int(os.environ.get("TALLY_KILL_ROUNDS", "40"))
FOR_EVER = 3600.0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["sqlite", "files"])
def test_a_command_that_is_killed_has_one_effect(engine: str, tmp_path: Path) -> None:
    """CP-05, CP-06: after a kill before, in or after the commit, a retry finds all or nothing; one effect."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    url = f"{engine}:{tmp_path}/log"
    repeated = []
    for number in range(ROUNDS):
        key = CommandKey("acme", "ada", "deploy", f"k{number}")
        before_commit = number % 4 == 0
        victim = victims.Victim(victims.command, url, key, FOR_EVER if before_commit else chance.random() * 0.004)
        victim.wait_until_begun()
        time.sleep(chance.random() * 0.012)
        victim.kill()
        with tallystick.open(url) as store:
            answer = Commands(store).run(key=key, request=key.key, handler=victims.decide)
            again = Commands(store).run(key=key, request=key.key, handler=victims.decide)
            assert (again.response, again.ranges, again.repeated) == (answer.response, answer.ranges, True)
            assert len(store.read_stream(f"deploy/{key.key}")) == 1
            head = store.stream_head("app/web")
            assert head is not None
            assert head.seq == number + 1
            assert not (before_commit and answer.repeated)
            repeated.append(answer.repeated)
    print(f"{sum(repeated)} of {ROUNDS} had taken effect when they were killed")
    with tallystick.open(url) as store:
        assert verify(store.log).problems == []
