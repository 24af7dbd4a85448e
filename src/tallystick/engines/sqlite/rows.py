"""Turns rows into values after checking the type of every column: a row of a damaged page may hold anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import starmap
from typing import Any, TypeAlias, TypeVar, get_args, get_type_hints

import msgspec

from tallystick import errors
from tallystick.event.model import Event

_Kinds: TypeAlias = "tuple[frozenset[type], ...]"
T = TypeVar("T", bound=msgspec.Struct)


@cache
def _kinds_of(struct: type[msgspec.Struct]) -> _Kinds:
    """The types that each field of a struct may have, in order."""
    hints = get_type_hints(struct)
    return tuple(frozenset(get_args(hints[name]) or (hints[name],)) for name in struct.__struct_fields__)


def events_of(rows: Iterable[Sequence[Any]]) -> list[Event]:
    """The events in rows that have the envelope's columns in their order."""
    return structs_of(Event, rows)


def event_of(row: Sequence[Any]) -> Event:
    """The event in one row."""
    return struct_of(Event, row)


def structs_of(struct: type[T], rows: Iterable[Sequence[Any]]) -> list[T]:
    """Values of rows whose columns are the fields of a struct, in their order."""
    found, kinds = list(rows), _kinds_of(struct)
    columns: Iterable[tuple[Any, ...]] = zip(*found, strict=True)
    if not all(kind.issuperset(map(type, column)) for kind, column in zip(kinds, columns, strict=False)):
        for row in found:
            struct_of(struct, row)
    return list(starmap(struct, found))


def struct_of(struct: type[T], row: Sequence[Any]) -> T:
    """The value of one such row."""
    if all(type(value) in kind for value, kind in zip(row, _kinds_of(struct), strict=False)):
        return struct(**dict(zip(struct.__struct_fields__, row, strict=False)))
    position = row[0] if struct is Event and type(row[0]) is int else 0
    name = struct.__name__.lower()
    raise errors.Damaged(first=position, last=position, reason=f"the row of this {name} is not what was written")
