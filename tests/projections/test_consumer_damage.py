"""Consumers whose handlers fail in odd ways, and settings that would stop one behind its first effect."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import NewEvent, errors
from tallystick.projections import Consumer, Live, Projection


class Unspeakable(Exception):
    """An error whose message raises in turn."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "problem", [ValueError("lone \ud800 surrogate"), ValueError("nul \0"), ValueError("x" * 9999), Unspeakable()]
)
def test_a_message_that_cannot_be_stored_does_not_stop_the_consumer(
    open_store: Any, engine: str, problem: Exception
) -> None:
    """CP-07: whatever the exception says, the event is parked and the next one is handled."""
    store = open_store(engine)
    store.append("order/1", [NewEvent("order.placed", {}), NewEvent("order.paid", {})])
    seen = []

    def handle(event: Any) -> None:
        seen.append(event.seq)
        if event.seq == 1:
            raise problem

    assert Consumer(store, "mailer", handle, attempts=1).catch_up() == 2
    assert seen == [1, 2]
    (letter,) = store.log.dead_letters.letters("mailer")
    assert letter.reason.startswith(type(problem).__name__)
    assert len(letter.reason.encode()) <= 2000


@pytest.mark.parametrize("setting", [{"save_every": 0}, {"retry_ms": -1}, {"attempts": 0}, {"save_every": 1.5}])
def test_a_setting_that_cannot_work_is_refused_before_any_effect(open_store: Any, setting: dict[str, Any]) -> None:
    """CP-07: not with the first event, whose effect would be repeated at every start."""
    with pytest.raises(errors.InvalidValue, match=next(iter(setting))):
        Consumer(open_store(), "mailer", print, **setting)


class Failing(Projection):
    """Cannot take anything, nor say why."""

    types = ("order.placed",)

    def initial(self) -> Any:
        return 0

    def apply(self, state: Any, event: Any) -> Any:
        raise Unspeakable


def test_a_projection_that_cannot_say_why_it_fails_fails_by_name(open_store: Any) -> None:
    """CP-08: the event is named all the same."""
    store = open_store()
    store.append("order/1", NewEvent("order.placed", {}))
    with pytest.raises(errors.ProjectionFailed, match="Unspeakable"):
        Live(store, Failing()).catch_up()
