"""Checkpoints: how far a consumer has read a log, so that it continues there, and only in that log."""

from __future__ import annotations

from typing import Protocol

import msgspec

from tallystick import errors
from tallystick.event.model import Event


class Checkpoint(msgspec.Struct, frozen=True):
    """The position of a consumer: the store, how far it has read, and the link of the last event it saw.

    `link_position` is the position whose link is remembered: the last event at or before `position`.
    """

    name: str
    store_id: bytes
    position: int
    link_position: int
    link: bytes


class Checkpoints(Protocol):
    """Durable checkpoints by name. Saving is a compare-and-set on the position."""

    def load(self, name: str) -> Checkpoint | None: ...
    def save(self, checkpoint: Checkpoint, *, previous: int | None) -> None:
        """Store it if the stored position is still `previous` (None: no checkpoint yet); otherwise raise `Conflict`."""

    def names(self) -> list[str]: ...
    def delete(self, name: str) -> None: ...


def require_same_history(checkpoint: Checkpoint, *, store_id: bytes, head: int, event: Event | None) -> None:
    """Refuse a checkpoint of another store, or of a history that this store does not have (a restored backup)."""
    if checkpoint.store_id != store_id:
        reason = f"it was made on store {checkpoint.store_id.hex()}, this is {store_id.hex()}"
        raise errors.WrongStore(name=checkpoint.name, reason=reason)
    if checkpoint.position > head:
        reason = f"it is at position {checkpoint.position}, the log ends at {head}"
        raise errors.WrongStore(name=checkpoint.name, reason=reason)
    if checkpoint.link_position and event is not None and event.link != checkpoint.link:
        reason = f"the event at position {checkpoint.link_position} has another link"
        raise errors.WrongStore(name=checkpoint.name, reason=reason)
    if checkpoint.link_position and event is None:
        reason = f"there is no event at position {checkpoint.link_position}"
        raise errors.WrongStore(name=checkpoint.name, reason=reason)
