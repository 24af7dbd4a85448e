"""Inline projections in PostgreSQL: rows and events are one transaction, while others append without projections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.projections import Live, ViewReader, rebuild, run_inline
from tallystick.store.verify import verify
from tallystick.testing.contract.projections import fill, folded, stored
from tallystick.testing.shop import PLACED, OrderTotals, order_event

from .test_lost_commit import CuttingProxy, proxy  # noqa: F401

Connect = Callable[..., psycopg.Connection[Any]]
Reopen = Callable[..., Store]

APPEND = """SELECT status FROM tally.append_event(
    %s, -1, 'order.placed', 1, gen_random_uuid(), 0, '{"amount":3,"customer":"c"}', '{}', NULL, 0, false, NULL, NULL)"""


def _append(connection: psycopg.Connection[Any], stream: str) -> None:
    assert connection.execute(APPEND, (stream,)).fetchone() == ("done",)


def test_an_inline_commit_waits_for_appends_in_progress(store: Store, connect: Connect) -> None:
    """CP-04, CP-08: the rows would miss a lower position that appears later, so the commit waits for it."""
    run_inline(store, OrderTotals())
    slow = connect("tally_app", autocommit=False)
    _append(slow, "order/slow")
    done: list[Any] = []
    inline = threading.Thread(target=lambda: done.append(store.append("order/1", order_event(PLACED))))
    inline.start()
    time.sleep(0.1)
    assert done == []
    slow.commit()
    inline.join(30)
    assert done[0].position == 2
    assert ViewReader(store, "OrderTotals").position() == 2
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())
    assert set(stored(store, OrderTotals())) == {"order/1", "order/slow"}


def test_an_append_waits_for_the_inline_commit(store: Store, reopen: Reopen) -> None:
    """CP-08: while an inline commit folds, no other session draws a position."""
    other = reopen()
    order: list[str] = []
    threads: list[threading.Thread] = []

    def append() -> None:
        other.append("order/2", order_event(PLACED))
        order.append("other")

    class Slow(OrderTotals):
        def apply(self, state: Any, event: Any) -> Any:
            if event.stream == "order/1":
                threads.append(threading.Thread(target=append))
                threads[0].start()
                time.sleep(0.1)
                order.append("folded")
            return super().apply(state, event)

    run_inline(store, Slow())
    store.append("order/1", order_event(PLACED))
    threads[0].join(30)
    assert order == ["folded", "other"]
    assert [event.stream for event in store.events()] == ["order/1", "order/2"]


def test_a_gap_is_no_reason_to_look_for_events(store: Store, connect: Connect) -> None:
    """CP-08: positions that were drawn and rolled back do not hold up rows."""
    run_inline(store, OrderTotals())
    for number in range(3):
        lost = connect("tally_app", autocommit=False)
        _append(lost, "order/lost")
        lost.rollback()
        done = store.append("order/1", order_event(PLACED, amount=number))
        assert done.position == 2 * number + 2
        assert ViewReader(store, "OrderTotals").position() == done.position
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())


def test_a_handle_of_one_connection_is_enough(reopen: Reopen) -> None:
    """CP-08: projections read within a commit over its connection."""
    store, other = reopen(connections_max=1), reopen()
    run_inline(store, OrderTotals())
    fill(other, 5)
    fill(store, 10)
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())


def test_a_refusal_draws_no_position(store: Store) -> None:
    """CP-05: an event that a projection refuses leaves nothing, and does not affect the next append."""
    run_inline(store, OrderTotals())
    store.append("order/1", order_event(PLACED))
    with pytest.raises(errors.ProjectionFailed):
        store.append("order/1", NewEvent(PLACED, {"no": "amount"}))
    assert store.append("order/1", order_event(PLACED)).position == 2
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())


@pytest.mark.timeout(120)
def test_inline_with_writers_runners_and_rebuilds(store: Store, reopen: Reopen) -> None:
    """CP-08: appends of two inline handles and a plain one, a live runner and rebuilds of the same rows: none fails."""
    stop, failures = threading.Event(), []
    handles = [store, reopen(), reopen(), reopen(), reopen()]
    for handle in handles[:2]:
        run_inline(handle, OrderTotals())

    def hire(work: Callable[[], Any]) -> threading.Thread:
        def working() -> None:
            try:
                work()
            except BaseException as problem:
                failures.append(problem)

        thread = threading.Thread(target=working)
        thread.start()
        return thread

    def rebuilding() -> None:
        while not stop.is_set():
            rebuild(handles[4], OrderTotals(), batch_events=7)

    writers = [hire(lambda handle=handle: fill(handle, 40)) for handle in handles[:3]]  # type: ignore[misc]
    runner = Live(handles[3], OrderTotals(), batch_events=3)
    others = [hire(lambda: runner.follow(stopped=stop.is_set)), hire(rebuilding)]
    for thread in writers:
        thread.join(90)
    stop.set()
    for thread in others:
        thread.join(30)
    assert failures == []
    done = store.append("order/1", order_event(PLACED))
    assert ViewReader(store, "OrderTotals").position() == done.position
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())


CUTS = {
    "where the rows are": b"FOR UPDATE",
    "how far the log is": b"tally.prove(",
    "the rows": b"INSERT INTO tally.view_rows",
    "the events": b"inline.cut",
    "the commit": b"COMMIT",
}


@pytest.mark.parametrize("delivered", [True, False])
@pytest.mark.parametrize("where", CUTS.values(), ids=CUTS.keys())
def test_a_connection_that_is_lost_leaves_rows_and_events_together(
    proxy: CuttingProxy,  # noqa: F811
    where: bytes,
    delivered: bool,
) -> None:
    """CP-05, CP-08: if any message of the commit is cut off, the event and its effect on the rows are stored once."""
    with tallystick.open(proxy.url) as store:
        run_inline(store, OrderTotals())
        store.append("order/1", order_event(PLACED, amount=1))
        proxy.delivered, proxy.cut_at = delivered, where
        store.append("order/1", order_event(PLACED, customer="inline.cut", amount=2))
        assert proxy.cuts == 1
        assert [event.data["amount"] for event in store.events()] == [1, 2]
        assert stored(store, OrderTotals()) == folded(store, OrderTotals())
        assert verify(store.log).problems == []
