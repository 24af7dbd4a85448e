"""The defaults of a consumer: how often it tries, how long it waits, and how much a kill repeats."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tallystick
from tallystick import Store
from tallystick.event.model import Event
from tallystick.projections import Consumer
from tallystick.testing.builders import events


class Killed(BaseException):
    """The process was killed."""


@pytest.fixture
def store() -> Iterator[Store]:
    """250 events."""
    with tallystick.open("memory:") as store:
        store.append("order/1", events(250))
        yield store


def test_a_kill_repeats_the_effects_since_the_last_hundredth(store: Store) -> None:
    """CP-07: the checkpoint is saved after every hundred events and at the end, so at most 99 effects are repeated."""

    def handle(event: Event) -> None:
        if event.seq == 250 and not again:
            raise Killed

    again: list[int] = []
    with pytest.raises(Killed):
        Consumer(store, "mailer", handle).catch_up()
    assert Consumer(store, "mailer", handle).position() == 200
    assert Consumer(store, "mailer", lambda event: again.append(event.seq)).catch_up() == 250
    assert again == list(range(201, 251))


def test_a_handler_that_fails_is_called_three_times_and_then_the_event_is_parked(store: Store) -> None:
    """CP-07: it waits 0.1 s, then twice as long; the dead letter counts the attempts, and the consumer continues."""
    calls: list[int] = []
    waited: list[float] = []

    def handle(event: Event) -> None:
        calls.append(event.seq)
        if event.seq == 2:
            raise ValueError("no such customer")

    Consumer(store, "mailer", handle, sleep=waited.append).catch_up(until=3)
    assert calls == [1, 2, 2, 2, 3]
    assert waited == [0.1, 0.2]
    (letter,) = store.log.dead_letters.letters("mailer", limit=9)
    assert (letter.position, letter.attempts) == (2, 3)
