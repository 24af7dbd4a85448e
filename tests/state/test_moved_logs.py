"""SAFE-06: a log with any history moves from any engine to any other, and is the same log there."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import tallystick
from tallystick import Store, moving, state
from tallystick.store.verify import verify
from tallystick.testing.clock import ManualClock

from .conftest import EMBEDDED, ENGINES, HAS_SERVER, url_of
from .test_replay_equivalence import STREAMS, World, steps

History = list[tuple[str, str, Any]]


def _lines(store: Store) -> list[bytes]:
    return list(moving.export(store, whole=True))


def _moved(lines: list[bytes], engine: str, world: World) -> list[bytes]:
    """The export of an engine that imported these lines, after it was compared with their source."""
    place = Path(tempfile.mkdtemp(prefix="tally-moved-"))
    try:
        with url_of(engine, place) as url, tallystick.open(url, clock=ManualClock()) as store:
            moving.import_lines(store, lines, batch=4)
            assert verify(store.log).problems == []
            assert list(state.problems(store, [world.reducer])) == []
            for stream in STREAMS:
                here, there = (state.fold(each, world.reducer, stream) for each in (store, world.store))
                assert (here.body, here.link) == (there.body, there.link)
                assert state.compare(store, world.reducer, stream).equal
            return _lines(store)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _check(source: str, targets: tuple[str, ...], history: History) -> None:
    place = Path(tempfile.mkdtemp(prefix="tally-move-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        world = World(source, place)
        stack.callback(world.close)
        for step in history:
            world.do(*step)
        lines = _lines(world.store)
        for target in targets:
            assert _moved(lines, target, world)[1:-1] == lines[1:-1]


@pytest.mark.parametrize("source", EMBEDDED)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=steps)
def test_a_log_with_any_past_moves_to_any_engine(source: str, history: History) -> None:
    """SAFE-06: the same lines, the same verdict, the same states and fingerprints."""
    _check(source, EMBEDDED, history)


@pytest.mark.skipif(not HAS_SERVER, reason="there is no PostgreSQL server")
@pytest.mark.slow
@pytest.mark.parametrize("source", ENGINES)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=steps)
def test_a_log_with_any_past_moves_to_and_from_a_server(source: str, history: History) -> None:
    """SAFE-06: the same with PostgreSQL at either end, which leaves gaps in positions after a rollback."""
    _check(source, ENGINES if source == "postgres" else ("postgres",), history)
