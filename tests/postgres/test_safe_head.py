"""The safe head, case by case: what holds it back, what does not, and who is named while it does not move."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tallystick import Store, errors
from tallystick.engines.postgres import inspection
from tallystick.store.verify import verify
from tallystick.testing import postgres
from tallystick.testing.builders import event, event_id, events, named

Connect = Callable[..., psycopg.Connection[Any]]

APPEND = """SELECT status FROM tally.append_event(
    %s, -1, 'thing.done', 1, gen_random_uuid(), 0, '{}', '{}', NULL, 0, false, NULL, NULL)"""


def _append(connection: psycopg.Connection[Any], stream: str) -> None:
    assert connection.execute(APPEND, (stream,)).fetchone() == ("done",)


def test_the_head_stops_before_an_append_that_is_not_decided(store: Store, connect: Connect) -> None:
    """CP-04: a later commit is visible in its own stream at once, and to readers of the log in its turn."""
    store.append("order/a", event())
    slow = connect("tally_app", autocommit=False)
    _append(slow, "order/slow")
    done = store.append("order/b", event())
    assert store.head() == 1
    assert [found.stream for found in store.read().events] == ["order/a"]
    assert store.read_stream("order/b")[0].position == done.position == 3
    assert store.wait(1, timeout=0.05) == 1
    slow.commit()
    assert store.head() == 3
    assert [found.stream for found in store.read(after=1).events] == ["order/slow", "order/b"]


def test_a_rollback_leaves_a_gap_that_is_crossed_at_once(store: Store, connect: Connect) -> None:
    """CP-04: a position that will never appear holds up nobody once its transaction has ended."""
    store.append("order/a", event())
    slow = connect("tally_app", autocommit=False)
    _append(slow, "order/slow")
    store.append("order/b", event())
    assert store.head() == 1
    slow.rollback()
    assert store.head() == 3
    assert [found.position for found in store.read().events] == [1, 3]


def test_a_gap_is_crossed_while_others_keep_appending(store: Store, connect: Connect) -> None:
    """CP-04: a gap is crossed once the transactions that were open with it have ended, even under constant load."""
    dead = connect("tally_app", autocommit=False)
    _append(dead, "order/dead")
    dead.rollback()
    first, second = (connect("tally_app", autocommit=False) for _ in range(2))
    _append(first, "order/1")
    for _ in range(10):  # at every moment one of the two has an open transaction
        _append(second, "order/2")
        first.commit()
        store.read()
        _append(first, "order/1")
        second.commit()
        store.read()
    assert store.read().through >= 2 * 10 - 2
    first.commit()


def test_contiguous_positions_need_no_proof(store: Store, connect: Connect) -> None:
    """CP-04: an append in progress holds up only what comes after it."""
    for number in range(5):
        store.append("order/a", event(number))
    slow = connect("tally_app", autocommit=False)
    _append(slow, "order/slow")
    assert store.head() == 5
    slow.rollback()


def test_transactions_that_do_not_append_hold_nobody(store: Store, connect: Connect, url: str) -> None:
    """CP-04: an idle transaction, here or in another database, reading or writing, holds nothing up."""
    connect().execute("CREATE TABLE public.mine (n integer)")
    idle = connect(autocommit=False)
    idle.execute("INSERT INTO public.mine VALUES (1)")
    reading = connect("tally_app", autocommit=False)
    reading.execute("SELECT * FROM tally.events")
    with psycopg.connect(postgres.with_database(url, "postgres")) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        for number in range(1, 4):
            store.append("order/a", event(number))
            assert store.head() == number
        elsewhere.rollback()


def test_a_killed_appender_holds_nobody(store: Store, connect: Connect) -> None:
    """CP-04: when the server process of an append dies, its gap is crossed."""
    slow = connect("tally_app", autocommit=False)
    _append(slow, "order/slow")
    store.append("order/a", event())
    assert store.head() == 0
    connect().execute("SELECT pg_terminate_backend(%s)", (slow.info.backend_pid,))
    assert store.wait(0, timeout=10) == 2


def test_readers_in_one_snapshot_stop_at_the_published_head(store: Store, connect: Connect) -> None:
    """CP-04: a repeatable-read transaction cannot see what ended since it began, so it uses only the published head."""
    store.append("order/a", events(3))
    store.log._publisher.publish()  # type: ignore[attr-defined]
    old = connect("tally_app", autocommit=False)
    old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    assert old.execute("SELECT position FROM tally.proven").fetchone() == (3,)
    store.append("order/a", event())
    assert old.execute("SELECT head FROM tally.prove(0, NULL, NULL)").fetchone() == (3,)
    assert store.head() == 4


def test_the_proven_head_is_published_after_a_commit(store: Store, connect: Connect) -> None:
    """CP-04: soon after the last commit the head is published, for standbys and new readers."""
    store.append("order/a", events(5))
    deadline = time.monotonic() + 10
    while connect().execute("SELECT position FROM tally.proven").fetchone() != (5,):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_is_published_is_never_ahead_of_what_is_final(store: Store, connect: Connect) -> None:
    """CP-04: publishing uses the same evidence as reading."""
    store.append("order/a", event())
    slow = connect("tally_app", autocommit=False)
    _append(slow, "order/slow")
    store.append("order/b", event())
    service = connect("tally_app")
    for _ in range(3):
        service.execute("SELECT tally.advance()")
        assert service.execute("SELECT position FROM tally.proven").fetchone() == (1,)
    slow.commit()
    service.execute("SELECT tally.advance()")
    assert service.execute("SELECT position FROM tally.proven").fetchone() == (3,)


def test_the_positions_of_a_commit_are_contiguous(store: Store) -> None:
    """CP-05: while others append, a commit's positions are contiguous, so a head never splits it."""
    seen: set[int] = set()
    stop = threading.Event()

    def work(number: int) -> None:
        for _ in range(15):
            store.append_all([(f"order/{number}", events(20), -1), (f"order/x{number}", events(20), -1)])

    def watch() -> None:
        while not stop.is_set():
            seen.add(store.head() % 40)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    watcher = threading.Thread(target=watch)
    for thread in (*threads, watcher):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    watcher.join()
    assert seen == {0}
    assert store.head() == 4 * 15 * 40


def test_a_stuck_appender_is_named(store: Store, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-13: the report names the server process that holds up the readers, what it is and for how long."""
    slow = connect("tally_app", autocommit=False, application_name="billing")
    _append(slow, "order/slow")
    time.sleep(0.05)
    assert store.report().problems == ()
    monkeypatch.setattr(inspection, "STUCK_S", 0.01)
    (problem,) = store.report().problems
    assert problem.what == "stuck appender"
    assert str(slow.info.backend_pid) in problem.reason
    assert "billing" in problem.reason
    assert "idle in transaction" in problem.reason
    slow.rollback()
    assert store.report().problems == ()


def test_writers_of_different_streams_do_not_wait_for_each_other(store: Store, connect: Connect) -> None:
    """CP-02: an open transaction on one stream does not delay writers of others; a writer of the same one gets Busy."""
    slow = connect("tally_app", autocommit=False)
    _append(slow, "order/slow")
    other = connect("tally_app")
    other.execute("SET lock_timeout = 200")
    for number in range(20):
        _append(other, f"order/{number}")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        _append(other, "order/slow")
    slow.rollback()


def test_a_commit_over_very_many_streams_succeeds_among_others(store: Store) -> None:
    """CP-05: a commit over more than 1,000 streams takes one lock for all, waits for other commits, and is whole."""
    stop = threading.Event()
    counted = [0]

    def work() -> None:
        while not stop.is_set():
            store.append(f"order/{counted[0] % 1500}", event())
            counted[0] += 1

    other = threading.Thread(target=work)
    other.start()
    try:
        done = store.append_all([(f"order/{number}", [event(number)], -1) for number in range(1500)])
    finally:
        stop.set()
        other.join()
    assert done[-1].position - done[0].position == 1499
    assert store.head() == 1500 + counted[0]
    assert verify(store.log).problems == []


@pytest.mark.parametrize("size", [1, 2])
def test_an_id_that_is_being_written_elsewhere_is_refused_when_it_is(store: Store, connect: Connect, size: int) -> None:
    """CP-02: two streams get the same id at the same moment: one gets it, the other is refused."""
    slow = connect("tally_app", autocommit=False)
    values = ("order/first", event_id(1).hex())
    slow.execute(
        "SELECT tally.append_event(%s, -1, 't', 1, %s::uuid, 0, '{}', '{}', NULL, 0, true, NULL, NULL)", values
    )
    told: list[BaseException] = []

    def work() -> None:
        try:
            store.append("order/second", [named(number) for number in range(1, size + 1)])
        except errors.TallyError as refused:
            told.append(refused)

    second = threading.Thread(target=work)
    second.start()
    time.sleep(0.1)
    assert second.is_alive()
    slow.commit()
    second.join(30)
    assert [type(refused) for refused in told] == [errors.DuplicateId]
    assert store.stream_head("order/second") is None


def test_waiting_for_a_stream_is_bounded(reopen: Callable[..., Store], connect: Connect) -> None:
    """LH-16: a locked stream gives Busy after the time that the handle allows, and nothing is written."""
    store = reopen(busy_ms=100)
    slow = connect("tally_app", autocommit=False)
    _append(slow, "order/slow")
    for size in (1, 3):
        with pytest.raises(errors.Busy) as busy:
            store.append("order/slow", events(size))
        assert busy.value.waited_ms == 100
    slow.rollback()
    assert store.append("order/slow", event()).seq == 1
