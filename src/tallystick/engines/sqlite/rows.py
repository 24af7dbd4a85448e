"""Rows of the table `events` as events, if every column is of its kind: a damaged page gives rows of anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import Any

from tallystick import errors
from tallystick.event.model import Event

_INT, _TEXT, _BYTES, _OPTIONAL = {int}, {str}, {bytes}, {bytes, type(None)}
_KINDS = (_INT, _TEXT, _INT, _TEXT, _INT, _BYTES, _INT, _OPTIONAL, _BYTES, _BYTES, _BYTES, _OPTIONAL)


def events_of(rows: Iterable[Sequence[Any]]) -> list[Event]:
    """The events in rows that have the envelope's columns in their order."""
    found = list(rows)
    if not _fit(found):
        raise _damaged(next(row for row in found if not _fit([row])))
    return list(starmap(Event, found))


def event_of(row: Sequence[Any]) -> Event:
    """The event in one row."""
    return events_of([row])[0]


def _fit(rows: list[Sequence[Any]]) -> bool:
    return all(set(map(type, column)) <= kinds for column, kinds in zip(zip(*rows, strict=True), _KINDS, strict=False))


def _damaged(row: Sequence[Any]) -> errors.Damaged:
    position = row[0] if type(row[0]) is int else 0
    return errors.Damaged(first=position, last=position, reason="the row of the event is not what was written")
