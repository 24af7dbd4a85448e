"""A login that may read a table of a projection cannot hold up an erasure, a rebuild or a drop of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import Event, NewEvent, Store, state
from tallystick.projections import TableProjection, TableRunner
from tallystick.projections.retire import drop_projection
from tallystick.store.tables import Execute

pytestmark = pytest.mark.security

Connect = Callable[..., psycopg.Connection[Any]]
Login = Callable[..., str]


class Listed(TableProjection):
    """A table of what was done and by whom, which everybody may read."""

    types = ("thing.done",)
    tables = ("listed",)

    def create(self, execute: Execute) -> None:
        """Its table."""
        execute("CREATE TABLE {listed} (who text)")
        execute("GRANT SELECT ON {listed} TO PUBLIC")

    def apply(self, execute: Any, event: Event) -> None:
        """Add one, unless the event was erased."""
        if event.payload is not None:
            execute("INSERT INTO {listed} VALUES (%s)", (event.data["who"],))


TABLE = 'tally_views."view_Listed_{epoch}_listed"'
HELD = {
    "a view": f"CREATE VIEW public.held AS SELECT who FROM {TABLE}",
    "a copy that is refreshed": f"CREATE MATERIALIZED VIEW public.held AS SELECT who FROM {TABLE}",
    "a column of its rows": f"CREATE TABLE public.held (copy {TABLE})",
    "a function": f"CREATE FUNCTION public.held() RETURNS SETOF {TABLE} LANGUAGE sql RETURN NULL",
}


@pytest.mark.parametrize("held", HELD.values(), ids=HELD.keys())
@pytest.mark.parametrize("act", ["an erasure", "a rebuild", "a drop"])
def test_a_reader_holds_no_table(store: Store, url: str, login: Login, connect: Connect, held: str, act: str) -> None:
    """CP-10, SAFE-09: an object that somebody made from a table is dropped with it."""
    connect().execute("GRANT ALL ON SCHEMA public TO public")
    connect().execute("GRANT USAGE ON SCHEMA tally_views TO public")
    store.append("order/a", NewEvent("thing.done", {"who": "me"}))
    with tallystick.open(login("tally_projector")) as projector:
        TableRunner(projector, Listed()).catch_up()
        with psycopg.connect(login(), autocommit=True) as reader:
            reader.execute(held.format(epoch=1).encode())
            if act == "an erasure":
                state.erase(store, "order/a", 1, reason="asked for")
            elif act == "a rebuild":
                TableRunner(projector, Listed()).rebuild()
            else:
                drop_projection(store, "Listed")
        tables = (
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'tally_views' AND tablename = 'view_Listed_1_listed'"
        )
        assert connect().execute(tables.encode()).fetchone() == (0,)
