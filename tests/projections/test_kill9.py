"""kill -9 of projection workers and consumers at any moment: the rows are those of a fold."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick.projections import Consumer, Live, ViewReader, rebuild, run_inline
from tallystick.testing import postgres
from tallystick.testing.contract.projections import fill, folded, stored
from tallystick.testing.shop import CustomerBalance, OrderTotals
from tests.projections import victims

from .conftest import DURABLE, url_of

ROUNDS = int(os.environ.get("TALLY_KILL_ROUNDS", "40"))


@pytest.fixture
def chance() -> random.Random:
    """Random numbers; a failure prints their seed."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    return random.Random(seed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", DURABLE)
def test_rows_survive_the_death_of_their_runners(engine: str, tmp_path: Path, chance: random.Random) -> None:
    """CP-08: two runners with rebuilds, killed at any moment: rows never go back, and equal a fold."""
    reached = {"OrderTotals": 0, "CustomerBalance": 0}
    with url_of(engine, tmp_path) as url, tallystick.open(url) as store:
        for number in range(ROUNDS):
            fill(store, 12, first=number * 12)
            killed = [victims.Victim(victims.project, url, chance.randrange(1 << 32)) for _ in range(2)]
            for victim in killed:
                victim.wait_until_begun()
            time.sleep(chance.random() * 0.06)
            for victim in killed:
                victim.kill()
            for name, before in reached.items():
                reached[name] = ViewReader(store, name).position()
                assert reached[name] >= before
            _rows_are_a_fold_of_a_prefix(store, OrderTotals())
        for projection in (OrderTotals(), CustomerBalance()):
            Live(store, projection).catch_up()
            assert stored(store, projection) == folded(store, projection)
            rebuild(store, projection)
        assert len(store.log.views.places()) == 2


def _rows_are_a_fold_of_a_prefix(store: tallystick.Store, projection: Any) -> None:
    """The last batch has happened completely."""
    until, rows = _at_rest(ViewReader(store, projection.name))
    states: dict[str, Any] = {}
    for event in store.events(until=until):
        if event.type in projection.types:
            states[event.stream] = projection.apply(states.get(event.stream, projection.initial()), event)
    assert rows == states


def _at_rest(reader: ViewReader) -> tuple[int, dict[str, Any]]:
    """A position and its rows: a server may still finish the transaction of a dead runner."""
    for _ in range(100):
        until = reader.position()
        rows = dict(reader.items()) if until else {}  # before the first there are none, and reading them is refused
        if reader.position() == until:
            return until, rows
    raise AssertionError("nobody is left, and rows still move")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", DURABLE)
def test_inline_rows_survive_the_death_of_their_writer(engine: str, tmp_path: Path, chance: random.Random) -> None:
    """CP-08: in databases one transaction with the append; on files the projection catches up at its next start."""
    head = 0
    with url_of(engine, tmp_path) as url:
        for number in range(ROUNDS // 2):
            victim = victims.Victim(victims.append_inline, url, number * 1000)
            victim.wait_until_begun()
            time.sleep(chance.random() * (0.2 if engine == "postgres" else 0.04))
            victim.kill()
            if engine == "postgres":
                postgres.wait_until_left(url)
            with tallystick.open(url) as store:
                if engine == "files":
                    run_inline(store, OrderTotals())
                assert ViewReader(store, "OrderTotals").position() == store.head()
                assert stored(store, OrderTotals()) == folded(store, OrderTotals())
                head = max(head, store.head())
    assert head > ROUNDS


@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", DURABLE)
def test_a_consumer_that_is_killed_skips_nothing(engine: str, tmp_path: Path, chance: random.Random) -> None:
    """CP-07: every event has its effect at least once, in order except for repeats."""
    effects = tmp_path / "effects"
    with url_of(engine, tmp_path) as url, tallystick.open(url) as store:
        for number in range(ROUNDS // 2):
            fill(store, 5, first=number * 5)
            victim = victims.Victim(victims.consume, url, str(effects))
            victim.wait_until_begun()
            time.sleep(chance.random() * 0.03)
            victim.kill()
        with effects.open("a") as rest:
            Consumer(store, "mailer", lambda event: rest.write(f"{event.position}\n")).catch_up()
        seen = [int(line) for line in effects.read_text().split()]
        assert list(dict.fromkeys(seen)) == [event.position for event in store.events()]
