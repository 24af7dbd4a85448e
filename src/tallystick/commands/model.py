"""What a handler gets and returns, and what the caller gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tallystick.event.model import Appendable
from tallystick.store.idempotency import CommandKey
from tallystick.store.prepare import Part
from tallystick.store.query import Marker, Query
from tallystick.store.store import Store


class Context(msgspec.Struct, frozen=True):
    """What a handler may read. It returns a decision and has no other effect."""

    store: Store
    key: CommandKey
    request: Any
    now: int


class Decision(msgspec.Struct, frozen=True):
    """What a command does: parts of (stream, events, expected) in one commit, and the JSON of its response.

    `require` names streams that the handler has read, each with the seq at which it must still end. `unless` is the
    marker of a consultation that it depends on, or a query that nothing may match, in the events of `org` if given.
    """

    parts: Sequence[tuple[str, Sequence[Appendable], int] | Part]
    response: Any
    require: tuple[tuple[str, int], ...] = ()
    unless: Marker | Query | None = None
    org: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """The response of a command. `repeated`: it had taken effect before. `ranges`: where its events are.

    `erased`: the response was erased together with the payload of one of these events, and is None.
    """

    response: Any
    repeated: bool
    ranges: tuple[tuple[str, int, int], ...]
    erased: bool = False


Handler = Callable[[Context], Decision]
