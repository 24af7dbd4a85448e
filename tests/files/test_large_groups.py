"""How much is written at once when many requests come together."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tallystick import NewEvent, errors
from tallystick.engines.files import engine, frame
from tallystick.store.combining import by_bytes
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify


def padded(size: int, stream: str = "order/1", **options: Any) -> Request:
    """A request with one event of about this size."""
    return Request([Part(stream, [NewEvent("thing.happened", {"text": "x" * size})], **options)])


def test_a_group_over_the_byte_limit_is_split(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-16: requests that are each valid are all written when they come at once, in order, each with its outcome."""
    monkeypatch.setattr(frame, "BODY_BYTES_MAX", 4000)
    monkeypatch.setattr(engine, "by_bytes", functools.partial(by_bytes, bytes_max=2000))
    store = opened()
    requests = [padded(1200, expected=number) for number in range(5)]
    *done, refused, last = store.submit([*requests, padded(1200, expected=99), padded(10)])
    assert [outcome[0].position for outcome in [*done, last]] == [1, 2, 3, 4, 5, 6]
    assert isinstance(refused, errors.Conflict)
    store.close()
    again = opened()
    assert len(list(again.events())) == 6
    assert verify(again.log).ok
