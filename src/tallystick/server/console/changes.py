"""What one event changed: the difference between two states, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import Any

import msgspec

from tallystick.event import canonical
from tallystick.server.console import display

CHANGES_MAX = 200
VALUE_CHARACTERS_MAX = 300
_ABSENT = object()


class FieldChange(msgspec.Struct, frozen=True):
    """One field: `added`, `removed` or `changed`, with its value before and after as JSON."""

    kind: str
    path: str
    before: str | None = None
    after: str | None = None


def between(before: Any, after: Any) -> tuple[list[FieldChange], bool]:
    """The changes from one state to the next, up to a bound; and whether there are more."""
    found = list(islice(_walk("", before, after), CHANGES_MAX + 1))
    return found[:CHANGES_MAX], len(found) > CHANGES_MAX


def _walk(path: str, before: Any, after: Any) -> Iterator[FieldChange]:
    if type(before) is dict and type(after) is dict:
        for key in sorted(before.keys() | after.keys()):
            inner = f"{path}.{display.plain(key)}" if path else display.plain(key)
            yield from _walk(inner, before.get(key, _ABSENT), after.get(key, _ABSENT))
    elif type(before) is list and type(after) is list:
        for index, (old, new) in enumerate(zip_longest(before, after, fillvalue=_ABSENT)):
            yield from _walk(f"{path}[{index}]", old, new)
    elif before is _ABSENT:
        yield FieldChange("added", path or "state", None, _text(after))
    elif after is _ABSENT:
        yield FieldChange("removed", path or "state", _text(before), None)
    elif type(before) is not type(after) or before != after:
        yield FieldChange("changed", path or "state", _text(before), _text(after))


def _text(value: Any) -> str:
    text, left = display.cut(display.plain(canonical.encode_state(value).decode()), VALUE_CHARACTERS_MAX)
    return text + "…" if left else text
