"""Consumers whose handlers fail in odd ways, and settings that would stop a consumer after its first effect."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import NewEvent, errors
from tallystick.projections import Consumer, Live, Projection, gauges, replay_letter
from tallystick.store.deadletters import DeadLetter


class Unspeakable(Exception):
    """An error whose message raises another error."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "problem", [ValueError("lone \ud800 surrogate"), ValueError("nul \0"), ValueError("x" * 9999), Unspeakable()]
)
def test_a_message_that_cannot_be_stored_does_not_stop_the_consumer(
    open_store: Any, engine: str, problem: Exception
) -> None:
    """CP-07: for any exception the event is parked and the next one is handled."""
    store = open_store(engine)
    store.append("order/1", [NewEvent("order.placed", {}), NewEvent("order.paid", {})])
    seen = []

    def handle(event: Any) -> None:
        seen.append(event.seq)
        if event.seq == 1:
            raise problem

    assert Consumer(store, "mailer", handle, attempts=1).catch_up() == 2
    assert seen == [1, 2]
    (letter,) = store.log.dead_letters.letters("mailer", limit=100)
    assert letter.reason.startswith(type(problem).__name__)
    assert len(letter.reason.encode()) <= 2000


@pytest.mark.parametrize("setting", [{"save_every": 0}, {"retry_ms": -1}, {"attempts": 0}, {"save_every": 1.5}])
def test_a_setting_that_cannot_work_is_refused_before_any_effect(open_store: Any, setting: dict[str, Any]) -> None:
    """CP-07: wrong settings are refused before the first event, whose effect would be repeated at every start."""
    with pytest.raises(errors.InvalidValue, match=next(iter(setting))):
        Consumer(open_store(), "mailer", print, **setting)


class Failing(Projection):
    """Fails at every event, and so does the message of its error."""

    types = ("order.placed",)

    def initial(self) -> Any:
        return 0

    def apply(self, state: Any, event: Any) -> Any:
        raise Unspeakable


def test_a_projection_that_cannot_say_why_it_fails_fails_by_name(open_store: Any) -> None:
    """CP-08: the event is named nevertheless."""
    store = open_store()
    store.append("order/1", NewEvent("order.placed", {}))
    with pytest.raises(errors.ProjectionFailed, match="Unspeakable"):
        Live(store, Failing()).catch_up()


def test_a_letter_of_another_history_replays_no_other_event(open_store: Any, engine: str) -> None:
    """CP-07: dead letters are stored next to the log; after a restored backup their seq may be another event's."""
    store = open_store(engine)
    store.append("order/1", [NewEvent("order.placed", {}), NewEvent("order.paid", {})])
    letters, handled = store.log.dead_letters, []
    letters.park(DeadLetter("mailer", 7, "order/1", 1, "order.placed", 1, 1, "it was another one"))
    letters.park(DeadLetter("mailer", 9, "order/1", 9, "order.placed", 1, 1, "it is lost"))
    for position in (7, 9):
        with pytest.raises(errors.WrongStore, match="mailer"):
            replay_letter(store, "mailer", position, handled.append)
        assert letters.load("mailer", position) is not None
    assert handled == []


def test_more_letters_than_a_page_are_all_counted(open_store: Any) -> None:
    """CP-14: the gauge counts all dead letters, not only the first thousand."""
    store = open_store()
    Consumer(store, "mailer", print).catch_up()
    store.append("order/1", NewEvent("order.placed", {}))
    Consumer(store, "mailer", lambda event: None).catch_up()
    for position in range(1, 1502):
        store.log.dead_letters.park(DeadLetter("mailer", position, "order/1", position, "order.placed", 1, 1, "no"))
    (gauge,) = gauges(store)
    assert gauge.dead_letters == 1501
