"""Single appends: one prepared statement, and a position that is drawn while others draw one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tallystick import NewEvent, Store, errors
from tallystick.engines.postgres.connections import ServerConnections

_DRAWING = "LOCK TABLE tally_locks.drawing IN"


def test_an_append_works_after_the_server_has_forgotten_its_statements(store: Store) -> None:
    """CP-02: psycopg may drop all prepared statements of a connection; the next append prepares its own again."""
    store.append("order/a", NewEvent("thing.done", {}))
    connections = store.log._connections
    assert isinstance(connections, ServerConnections)
    with connections.connection() as connection:
        connection.execute("DEALLOCATE ALL")
    assert store.append("order/a", NewEvent("thing.done", {}), expected=1).last_seq == 2


def test_sessions_that_draw_one_position_do_not_wait_for_each_other(
    reopen: Callable[..., Store], connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """CP-02: one event is appended while another transaction draws one, and never while one draws several."""
    store = reopen(busy_ms=200)
    other = connect(autocommit=False)
    other.execute(f"{_DRAWING} ROW EXCLUSIVE MODE")
    first = store.append("order/a", NewEvent("thing.done", {}))
    with pytest.raises(errors.Busy):
        store.append("order/b", [NewEvent("thing.done", {}), NewEvent("thing.done", {})])
    other.rollback()
    other.execute(f"{_DRAWING} EXCLUSIVE MODE")
    with pytest.raises(errors.Busy):
        store.append("order/a", NewEvent("thing.done", {}))
    other.rollback()
    drawn = store.append("order/b", [NewEvent("thing.done", {}) for _ in range(3)])
    assert drawn.last_position - drawn.first_position == 2
    assert drawn.first_position > first.last_position


def test_a_single_append_gives_the_reason_of_a_refusal(store: Store) -> None:
    """CP-02: a new stream that was expected to have events, and an old one expected elsewhere, are conflicts."""
    with pytest.raises(errors.Conflict) as missing:
        store.append("order/a", NewEvent("thing.done", {}), expected=3)
    assert (missing.value.expected, missing.value.actual) == (3, 0)
    store.append("order/a", NewEvent("thing.done", {}, meta={"org": "acme"}), expected=0)
    with pytest.raises(errors.Conflict) as moved:
        store.append("order/a", NewEvent("thing.done", {}, meta={"org": "other"}), expected=0)
    assert (moved.value.expected, moved.value.actual) == (0, 1)
    with pytest.raises(errors.OrgMismatch) as foreign:
        store.append("order/a", NewEvent("thing.done", {}, meta={"org": "other"}), expected=1)
    assert (foreign.value.org, foreign.value.given) == ("acme", "other")
    assert [event.seq for event in store.read_stream("order/a")] == [1]


def test_one_thread_uses_few_connections_and_many_share_few(reopen: Callable[..., Store]) -> None:
    """CP-02: one thread needs one connection, next to the one that publishes; with few, all threads get their turn."""
    store = reopen(connections_max=8)
    connections = store.log._connections
    assert isinstance(connections, ServerConnections)
    used = set()
    for _ in range(20):
        with connections.connection() as connection:
            used.add(connection.info.backend_pid)
    assert len(used) <= 2
    store.close()
    store = reopen(connections_max=2)

    def append(name: int) -> None:
        for _ in range(10):
            store.append(f"order/{name}", NewEvent("thing.done", {}))

    threads = [threading.Thread(target=append, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.head() == 80
