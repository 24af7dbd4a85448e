"""Readers and a writer at the same time, in threads and in processes."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from tallystick import errors
from tallystick.store.verify import verify

_FOLLOW = """
import sys, tallystick
store = tallystick.open("sqlite:" + sys.argv[1], readonly=True)
after = 0
print("ready", flush=True)
while after < int(sys.argv[2]):
    store.wait(after, timeout=30)
    for event in store.read(after=after).events:
        assert event.position == after + 1, (event.position, after)
        after = event.position
print(after, flush=True)
"""


def test_the_log_is_in_wal_mode_with_full_syncs(store):
    """EVT-06: the journal is a write-ahead log, and every commit is synced."""
    connection = store.log._database.writer._connection
    connection.set_authorizer(None)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_an_open_read_does_not_block_the_writer(store, some, path):
    """EVT-06: a reader with an open snapshot does not block commits, and still sees its own state."""
    store.append("order/a", some(2))
    reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM events").fetchone() == (2,)
    store.append("order/a", some(3))
    assert reader.execute("SELECT count(*) FROM events").fetchone() == (2,)
    reader.execute("COMMIT")
    assert reader.execute("SELECT count(*) FROM events").fetchone() == (5,)
    reader.close()


def test_reads_do_not_wait_for_a_commit(store, some):
    """EVT-06: with the write lock taken and a commit waiting, reads of the same handle answer at once."""
    store.append("order/a", some(2))
    with store.log._database.writing() as connection:
        connection.execute("INSERT INTO checkpoints VALUES ('x', x'', 0, 0, x'', NULL)")
        waiting = threading.Thread(target=lambda: store.append("order/a", some(1)))
        waiting.start()
        assert len(store.read().events) == 2
        assert store.stream_head("order/a").seq == 2
        assert waiting.is_alive()
    waiting.join()
    assert store.head() == 3


def test_a_reader_in_another_process_sees_every_commit_in_order(store, some, path, spawn):
    """EVT-06: a process that follows the log read-only misses nothing and sees nothing twice."""
    child = spawn(_FOLLOW, path, "60")
    assert child.stdout.readline() == "ready\n"
    for _ in range(20):
        store.append("order/a", some(3))
    assert child.communicate(timeout=60) == ("60\n", "")


def test_a_read_only_handle_writes_nothing(reopen, some):
    """A handle opened for reading refuses to append, and SQLite refuses its connections too."""
    reopen().append("order/a", some(1))
    reader = reopen(readonly=True)
    with pytest.raises(errors.ReadOnly):
        reader.append("order/a", some(1))
    with pytest.raises(errors.ReadOnly):
        reader.save_checkpoint("c", 1)
    with pytest.raises(errors.ReadFailed), reader.log._database.reading() as connection:
        connection.execute("DELETE FROM streams")
    assert reader.head() == 1


def test_waiting_ends_when_another_thread_commits(store, some):
    """`wait` returns the new head as soon as there is one, and the old one when the time is up."""
    assert store.wait(0, timeout=0.01) == 0
    seen = []
    waiting = threading.Thread(target=lambda: seen.append(store.wait(0, timeout=60)))
    waiting.start()
    store.append("order/a", some(2))
    waiting.join()
    assert seen == [2]


def test_closing_ends_a_wait(store):
    """A waiting thread returns when the store closes."""
    waiting = threading.Thread(target=lambda: store.wait(0, timeout=600))
    waiting.start()
    store.close()
    waiting.join(60)
    assert not waiting.is_alive()


def test_many_threads_append_and_read_through_one_handle(store, some):
    """Appends from eight threads all arrive, while others read gapless prefixes of the log."""

    def append(name: int) -> None:
        for _ in range(20):
            store.append(f"order/{name}", some(2))

    def read() -> None:
        while store.head() < 320:
            positions = [event.position for event in store.read().events]
            gapless.append(positions == list(range(1, len(positions) + 1)))

    gapless: list[bool] = []
    threads = [threading.Thread(target=append, args=(name,)) for name in range(8)] + [threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(gapless)
    assert verify(store.log).ok


def test_a_closed_store_says_so(store, some):
    """Every use after `close` is refused with `StoreClosed`."""
    store.close()
    for use in (store.head, store.read, store.report, lambda: store.append("order/a", some(1))):
        with pytest.raises(errors.StoreClosed):
            use()
    store.close()
