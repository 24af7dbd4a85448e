"""The fields that a summary looks at: `payload.customer`, `payload.shipping.city`."""

from __future__ import annotations

import re
from typing import Any

from tallystick import errors
from tallystick.store.views import BY_PAYLOAD

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Field:
    """A path into the payload. Its names are plain identifiers, which every database understands in the same way."""

    __slots__ = ("_steps",)

    def __init__(self, *steps: str) -> None:
        for step in steps:
            if not _PLAIN.fullmatch(step):
                raise errors.InvalidValue(what="field of a summary", value=step, must=f"a name like {_PLAIN.pattern}")
        self._steps = steps

    def __getattr__(self, name: str) -> Field:
        if name.startswith("__"):  # Python looks up such names on every object
            raise AttributeError(name)
        return Field(*self._steps, name)

    def __getitem__(self, name: str) -> Field:
        return Field(*self._steps, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and steps(self) == steps(other)

    def __hash__(self) -> int:
        return hash(steps(self))

    def __reduce__(self) -> Any:
        return Field, steps(self)

    def __repr__(self) -> str:
        return path(self)


def steps(field: Field) -> tuple[str, ...]:
    """The names of the path to a field."""
    found: tuple[str, ...] = object.__getattribute__(field, "_steps")
    return found


def path(field: Field) -> str:
    """A field as `payload.customer`."""
    return BY_PAYLOAD + ".".join(steps(field))


payload = Field()
