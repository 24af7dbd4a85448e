"""Retiring readers of a log: dropping projections and consumers that nobody runs, or moving a consumer.

A reader that has stopped prevents events from being pruned as long as it has a place. Each change is recorded as a
control fact first and then made, so the audit trail names who did it even if the process dies in between; a repeated
call does the rest. A runner that is still running creates its place again: stop it first.
"""

from __future__ import annotations

import msgspec

from tallystick import errors
from tallystick.event import names
from tallystick.event.model import NewEvent
from tallystick.projections.gauges import consumers
from tallystick.store import deadletters
from tallystick.store.store import Store
from tallystick.store.views import DISCARD_ROWS, Place

STREAM = "tally.store/readers"
PROJECTION_DROPPED = "tally.projection.dropped"
CONSUMER_DROPPED = "tally.consumer.dropped"
CONSUMER_RESET = "tally.consumer.reset"


class ProjectionDropped(msgspec.Struct, frozen=True, kw_only=True):
    """The rows or tables of a projection were dropped, in all epochs. `position` is that of the live ones."""

    name: str
    position: int
    epochs: list[int]
    reason: str


class ConsumerDropped(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint of a consumer was dropped, and its dead letters. `position` is where it was."""

    name: str
    position: int
    dead_letters: int
    reason: str


class ConsumerReset(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer continues after another position; `before` is where it was."""

    name: str
    before: int
    position: int
    reason: str


def drop_projection(store: Store, name: str, *, by: str = "", reason: str = "") -> ProjectionDropped:
    """Drop a projection: its rows or tables, and its places. A rebuild or a runner makes it again from the log."""
    names.check_label("projection name", name)
    rows, tables = _places(store, name)
    if not rows and not tables:
        raise errors.ReaderNotFound(kind="projection", name=name)
    live = next((place for place in (*rows, *tables) if place.live), None)
    fact = ProjectionDropped(
        name=name,
        position=live.position if live is not None else 0,
        epochs=sorted({place.epoch for place in (*rows, *tables)}),  # an engine may store all places in one table
        reason=reason,
    )
    record(store, PROJECTION_DROPPED, fact, by)
    if tables:  # first: in an engine with one table for all places, dropping rows would drop these places too
        with store.log.view_tables.writing() as session:
            for place in session.views.places():
                if place.projection == name:
                    session.discard(place)
    for place in rows:
        while store.log.views.discard(name, place.epoch, limit=DISCARD_ROWS, live=True) == DISCARD_ROWS:
            pass
    return fact


def drop_consumer(store: Store, name: str, *, letters: bool = False, by: str = "", reason: str = "") -> ConsumerDropped:
    """Drop a consumer, with `letters` also its dead letters; refused if it has some and `letters` is not set."""
    try:
        place = _position(store, name)
    except errors.CheckpointDamaged:  # its position is unknown, which may be why it is dropped
        place = None
    parked = _parked(store, name)
    if parked and not letters:
        raise errors.LettersLeft(consumer=name, count=len(parked))
    fact = ConsumerDropped(name=name, position=place or 0, dead_letters=len(parked), reason=reason)
    record(store, CONSUMER_DROPPED, fact, by)
    for position in parked:
        store.log.dead_letters.remove(name, position)
    store.log.checkpoints.delete(name)
    return fact


def reset_consumer(store: Store, name: str, position: int, *, by: str = "", reason: str = "") -> ConsumerReset:
    """Move a consumer to `position`: an earlier one repeats events, a later one skips events."""
    before = _position(store, name)
    floor, head = store.floor(), store.head()
    if type(position) is not int or not floor <= position <= head:
        must = f"from {floor}, up to which the log was pruned, to the head, {head}"
        raise errors.InvalidValue(what="position", value=names.display(position), must=must)
    fact = ConsumerReset(name=name, before=before or 0, position=position, reason=reason)
    record(store, CONSUMER_RESET, fact, by)
    store.save_checkpoint(name, position)
    return fact


def record(store: Store, type_: str, fact: msgspec.Struct, by: str) -> None:
    """Record a fact as done by `by`; if that is empty, by the actor that the store was opened for."""
    meta = {"actor_type": "user", "actor_id": by} if by else None
    store.record([(STREAM, NewEvent(type_, msgspec.to_builtins(fact), meta))])


def _places(store: Store, name: str) -> tuple[list[Place], list[Place]]:
    """The places of a projection: those of its rows, and those of its tables."""
    rows = [place for place in store.log.views.places() if place.projection == name]
    with store.log.view_tables.reading() as session:
        tables = [place for place in session.views.places() if place.projection == name]
    return rows, tables


def _position(store: Store, name: str) -> int | None:
    """The checkpoint of a consumer; None if it has dead letters but no checkpoint yet."""
    names.check_label("consumer name", name)
    if names.is_reserved(name):
        raise errors.ReservedName(name=name)
    found = store.log.checkpoints.load(name)
    if found is None and name not in consumers(store):
        raise errors.ReaderNotFound(kind="consumer", name=name)
    return None if found is None else found.position


def _parked(store: Store, name: str) -> list[int]:
    return [letter.position for letter in deadletters.every(store.log.dead_letters, name)]
