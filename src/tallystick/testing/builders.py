"""Events for tests. What a test does not care about is filled in. The same call gives the same event."""

from __future__ import annotations

import random
import string
from typing import Any

from tallystick.event.model import NewEvent

TYPE = "thing.happened"


def event(number: int = 1, *, type: str = TYPE, meta: dict[str, Any] | None = None, **fields: Any) -> NewEvent:
    """An event with `{"n": number}` as its payload."""
    return NewEvent(type, {"n": number}, meta=meta, **fields)


def events(count: int, *, first: int = 1, **fields: Any) -> list[NewEvent]:
    """`count` events, numbered from `first` on."""
    return [event(number, **fields) for number in range(first, first + count)]


def text(length: int, *, seed: int = 1) -> str:
    """Letters that hardly compress, so that the size of a file shows their length."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=length))


def event_id(number: int) -> bytes:
    """A well-formed UUIDv7 that is the same in every run."""
    return (0x0199B000 << 96 | 7 << 76 | 2 << 62 | number).to_bytes(16, "big")


def named(number: int, *, id: int | None = None, **fields: Any) -> NewEvent:
    """An event with an id that the test knows, so that it can be retried."""
    return event(number, id=event_id(number if id is None else id), **fields)
