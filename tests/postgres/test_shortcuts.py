"""Batches to a stream whose end the handle guesses: one statement, and the right answer after a wrong guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick import NewEvent, Store, errors
from tallystick.engines.postgres.shortcuts import StreamEndCache
from tallystick.engines.postgres.writer import Writer
from tallystick.store import expectation
from tallystick.store.commit import Write
from tallystick.store.ledger import NO_HEAD, Head
from tallystick.store.verify import verify

TWO = [NewEvent("thing.done", {"n": 1}), NewEvent("thing.done", {"n": 2})]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The streams of the batches about which the ledger had to ask the database."""
    streams: list[str] = []
    judged = Writer._commit_by_ledger

    def noted(self: Writer, connection: Any, group: Any, again: bool) -> Any:
        streams.extend(write.stream for transaction in group for write in transaction.writes)
        return judged(self, connection, group, again)

    monkeypatch.setattr(Writer, "_commit_by_ledger", noted)
    return streams


def test_a_batch_to_a_stream_whose_end_is_known_is_one_statement(store: Store, asked: list[str]) -> None:
    """CP-03, CP-14: the end of a new stream is guessed, and of one that this handle wrote last."""
    store.append("order/a", TWO)
    store.append("order/a", TWO, expected=2)
    store.append("order/a", TWO[0])
    done = store.append("order/a", TWO)
    assert asked == []
    assert (done.first_seq, done.last_seq, done.first_position, done.last_position) == (6, 7, 6, 7)
    assert verify(store.log).ok


def test_a_stream_that_others_write_is_looked_up(reopen: Callable[..., Store], asked: list[str]) -> None:
    """CP-03, CP-05: a batch follows what another handle appended, and the stream is not guessed again."""
    mine, other = reopen(), reopen()
    mine.append("order/a", TWO)
    other.append("order/a", TWO)
    asked.clear()
    assert mine.append("order/a", TWO).first_seq == 5
    assert mine.append("order/a", TWO).first_seq == 7
    assert asked == ["order/a", "order/a"]
    assert [event.seq for event in mine.read_stream("order/a")] == list(range(1, 9))
    assert verify(mine.log).ok


def test_existing_streams_are_looked_up_until_new_ones_come(reopen: Callable[..., Store], asked: list[str]) -> None:
    """CP-14: a handle that finds existing streams stops guessing that unknown ones are new."""
    before = reopen()
    for number in range(6):
        before.append(f"order/{number}", TWO)
    store = reopen()
    assert [store.append(f"order/{number}", TWO).first_seq for number in range(6)] == [3] * 6
    assert [store.append(f"new/{number}", TWO).first_seq for number in range(6)] == [1] * 6
    assert asked == [*(f"order/{number}" for number in range(6)), "new/0", "new/1"]


@pytest.mark.parametrize("expected", [0, 1, 3, 7])
def test_a_wrong_expectation_is_a_conflict_with_the_stored_seq(reopen: Callable[..., Store], expected: int) -> None:
    """CP-02: the conflict is the same if the handle knows the stream, an older end of it, or nothing."""
    mine, other, new = reopen(), reopen(), reopen()
    mine.append("order/a", TWO)
    other.append("order/a", TWO)
    for store in (mine, other, new):
        with pytest.raises(errors.Conflict) as conflict:
            store.append("order/a", TWO, expected=expected)
        assert (conflict.value.expected, conflict.value.actual) == (expected, 4)
    assert mine.stream_head("order/a").seq == 4


def test_another_org_is_refused_by_name(store: Store, asked: list[str]) -> None:
    """CP-10: the ledger refuses it, and the stream is still guessed."""
    mine, other = ([NewEvent("thing.done", {}, meta={"org": org})] * 2 for org in ("acme", "bolt"))
    store.append("order/a", mine)
    with pytest.raises(errors.OrgMismatch) as refusal:
        store.append("order/a", other)
    assert (refusal.value.org, refusal.value.given) == ("acme", "bolt")
    asked.clear()
    store.append("order/a", mine)
    assert asked == []


def test_what_the_database_refuses_is_looked_up(store: Store, asked: list[str]) -> None:
    """CP-05: a guess with the right seq and a wrong link writes nothing; the batch then follows the stream."""
    store.append("order/a", TWO)
    writer = store.log._writer
    writer._shortcuts.ends.learn("order/a", Head(2, bytes(32)), first_seq=1)
    assert store.append("order/a", TWO).last_seq == 4
    assert asked == ["order/a"]
    assert verify(store.log).ok


def test_what_is_known_is_bounded() -> None:
    """CP-14: the cache forgets only the oldest of many streams."""
    ends = StreamEndCache()
    for number in range(1, 2001):
        ends.learn(f"order/{number}", Head(number, bytes(32)), first_seq=1)
    assert len(ends._heads) == 1024
    assert ends.guess(Write("order/2000", [], 2000)) == Head(2000, bytes(32))
    assert ends.guess(Write("order/1", [], expectation.NO_STREAM)) == NO_HEAD
    assert ends.guess(Write("order/1", [], 1)) is None
