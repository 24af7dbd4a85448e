"""Following a quiet log: few questions, and a quick answer."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tallystick import NewEvent, Store
from tallystick.engines.postgres import safe_head
from tallystick.engines.postgres.engine import PostgresLog


def _quiet(store: Store) -> PostgresLog:
    """A log in which nothing has happened for a long time."""
    log = store.log
    assert isinstance(log, PostgresLog)
    log.wait(0, timeout=0)
    log._waiter.moved_at -= 3600
    return log


def test_the_pause_grows_with_the_silence() -> None:
    """CP-04: a follower polls fast after an event, and never more slowly than is documented."""
    pauses = [safe_head.pause_after(quiet_s) for quiet_s in (0, 0.1, 1, 3, 60, 86_400)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[2], pauses[-1]) == (safe_head.PAUSE_S_MIN, 0.05, safe_head.PAUSE_S_MAX)


def test_an_idle_follower_asks_seldom(reopen: Callable[..., Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-04: half a second of waiting in a quiet log takes about three questions, not fifty."""
    reopen().append("order/a", NewEvent("thing.done", {}))
    log = _quiet(reopen(readonly=True))
    asked: list[int] = []
    glance = log._safe_head.glance

    def counting() -> int:
        asked.append(1)
        return glance()

    monkeypatch.setattr(log._safe_head, "glance", counting)
    assert log.wait(1, timeout=0.5) == 1
    assert 1 <= len(asked) <= 4


def test_an_append_of_another_handle_is_seen_however_long_it_was_quiet(reopen: Callable[..., Store]) -> None:
    """CP-04: an event that is appended during a pause is seen after it."""
    writer, reader = reopen(), reopen(readonly=True)
    writer.append("order/a", NewEvent("thing.done", {}))
    log = _quiet(reader)
    threading.Timer(0.05, lambda: writer.append("order/a", NewEvent("thing.done", {}))).start()
    assert log.wait(1, timeout=60) == 2


def test_own_commits_and_closing_end_a_wait(reopen: Callable[..., Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-04: a handle's own commit and its closing end the wait at once."""
    monkeypatch.setattr(safe_head, "PAUSE_S_MAX", 3600.0)
    monkeypatch.setattr(safe_head, "pause_after", lambda quiet_s: 3600.0)
    store = reopen()
    found: list[int] = []
    for what in (lambda: store.append("order/a", NewEvent("thing.done", {})), store.close):
        thread = threading.Thread(target=lambda: found.append(store.wait(len(found), timeout=3600)))
        thread.start()
        what()
        thread.join(60)
        assert not thread.is_alive()
    assert found == [1, 1]
