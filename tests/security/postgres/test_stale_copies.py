"""A stale copy that gave out positions again refuses the places that readers keep.

On PostgreSQL positions of commits that were rolled back stay empty: a place may be at one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.pipeline.source.columns import COLUMNS
from tallystick.pipeline.source.log_query import parse
from tallystick.pipeline.source.stream_reader import LogStreamReader
from tallystick.projections import Live, Projection

from .raw import Draws, call, connect

pytestmark = pytest.mark.security

EMPTY = 9  # the last event before it is at 7


class Counted(Projection):
    """Counts the things that were done."""

    types = ("thing.done",)
    key = "kind"

    def initial(self) -> Any:
        """Zero."""
        return {"n": 0}

    def apply(self, state: Any, event: Any) -> Any:
        """Add one."""
        return {"n": state["n"] + 1}


def _done(store: Store, count: int, *, by: str) -> None:
    for _ in range(count):
        store.append("order/a", NewEvent("thing.done", {"by": by}))


@pytest.fixture
def copies(url: str, reopen: Callable[..., Store]) -> Iterator[tuple[str, str]]:
    """A log with three empty positions, and a copy from before the last events that continued on its own."""
    with tallystick.open(url) as store:
        _done(store, 5, by="both")
    parts = urlsplit(url)
    name = parts.path.removeprefix("/")
    stale, other = (urlunsplit(parts._replace(path=path)) for path in (f"/{name}_stale", "/postgres"))
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}_stale TEMPLATE {name}".encode())
        try:
            with tallystick.open(stale) as store:
                _done(store, 10, by="the copy")
            with tallystick.open(url) as store:
                _done(store, 2, by="us")
                for number in range(3):
                    with connect(url) as writer, writer.transaction(force_rollback=True):
                        call(writer, "append_event", f"order/gone-{number}", [Draws()])
                _done(store, 5, by="us")
                assert [event.position for event in store.read(after=5).events] == [6, 7, 11, 12, 13, 14, 15]
            yield url, stale
        finally:
            connection.execute(f"DROP DATABASE {name}_stale WITH (FORCE)".encode())


def test_an_offset_of_spark_at_an_empty_position_is_refused(copies: tuple[str, str]) -> None:
    """PIPE-01, CP-07: an offset depends on the last event before it, and so on the history."""
    ours, theirs = (LogStreamReader(parse({"url": url}), COLUMNS) for url in copies)
    offset = ours.latestOffset(ours.initialOffset(), ReadMaxRows(EMPTY))
    assert offset["position"] == EMPTY
    assert ours.latestOffset(offset, ReadMaxRows(100))["position"] == 15
    with pytest.raises(errors.WrongStore):
        theirs.latestOffset(offset, ReadMaxRows(100))
    with pytest.raises(errors.WrongStore):
        theirs.partitions(offset, offset)


def test_a_checkpoint_at_an_empty_position_is_refused(copies: tuple[str, str]) -> None:
    """CP-07: the same for what a consumer keeps, and for the place of a projection."""
    ours, theirs = copies
    with tallystick.open(ours) as store, tallystick.open(theirs) as copy:
        store.save_checkpoint("mails", EMPTY)
        kept = store.log.checkpoints.load("mails")
        assert kept is not None
        assert store.resume(kept) == EMPTY
        with pytest.raises(errors.WrongStore):
            copy.resume(kept)
        Live(store, Counted()).catch_up(until=EMPTY)
        place = store.log.views.place("Counted")
        assert place is not None
        assert (place.position, place.link_position) == (EMPTY, 7)
