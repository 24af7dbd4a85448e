"""What goes into a handler, what comes out of it, and what the caller gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tallystick.event.model import NewEvent
from tallystick.store.idempotency import CommandKey
from tallystick.store.prepare import Part
from tallystick.store.store import Store


class Context(msgspec.Struct, frozen=True):
    """What a handler may look at. It reads the store and returns a decision; it has no other effect."""

    store: Store
    key: CommandKey
    request: Any
    now: int


class Decision(msgspec.Struct, frozen=True):
    """What a command does: (stream, events, expected) each, in one commit, and the JSON that answers it.

    `require` names streams that were looked at and must still end at a seq, written to or not.
    """

    parts: Sequence[tuple[str, Sequence[NewEvent], int] | Part]
    response: Any
    require: tuple[tuple[str, int], ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """The response of a command. `repeated`: it had taken effect before. `ranges` says where its events are."""

    response: Any
    repeated: bool
    ranges: tuple[tuple[str, int, int], ...]


Handler = Callable[[Context], Decision]
