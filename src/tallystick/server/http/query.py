"""What the address of a request says: the parameters of a route, in its path and after `?`.

A handler declares them as arguments with types and bounds. A parameter that the route does not know is refused: a
misspelt filter that was ignored would return the events of everybody.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from msgspec.inspect import (
    BoolType,
    FloatType,
    IntType,
    ListType,
    Metadata,
    NoneType,
    StrType,
    Type,
    UnionType,
    type_info,
)

from tallystick import errors

REQUIRED = msgspec.NODEFAULT
EVENT_ID = "after_event_id"
BY_POSITION = frozenset({"/v1/events", "/v1/follow", "/v1/audit"})  # elsewhere `after` is a seq or a name
OWN_NAMES = {
    EVENT_ID: "after",
    "org_id": "org",
    "app_id": "app",
    "env_id": "env",
    "event_type": "type",
}
"""The names that the control plane has for our parameters. Both are accepted."""

_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"0", "false", "f", "no", "n", "off"})
_INTEGER = re.compile(r"\s*([+-]?[0-9]+(?:_[0-9]+)*)(?:\.0+)?\s*")
_DIGITS_MAX = 4300


class Parameter(NamedTuple):
    """One parameter. A required one has no default. `group` is the argument whose field it is, if it is a field."""

    name: str
    place: str
    annotation: Any
    default: Any = REQUIRED
    group: str = ""

    @property
    def type(self) -> Type:
        """Its type, without what only describes it."""
        found = type_info(self.annotation)
        while isinstance(found, (Metadata, UnionType)):
            found = found.type if isinstance(found, Metadata) else _without_none(found)
        return found


class Parameters:
    """What a handler takes from an address: arguments that the path names, the others from the query.

    An argument whose type is a struct takes each field of the struct from the query.
    """

    def __init__(self, handler: Callable[..., Any], path: str) -> None:
        self.groups: dict[str, type[msgspec.Struct]] = {}
        self.all = list(self._of(handler, set(re.findall(r"{(\w+)", path))))
        self._query = {one.name: one for one in self.all if one.place == "query"}
        self._types = {one.name: one.type for one in self.all}
        self._own_names = dict(OWN_NAMES) if path.startswith("/v1/") else {}
        if path not in BY_POSITION:
            self._own_names.pop(EVENT_ID, None)

    def _of(self, handler: Callable[..., Any], in_path: set[str]) -> Iterator[Parameter]:
        hints = get_type_hints(handler, include_extras=True)
        for name, argument in list(inspect.signature(handler).parameters.items())[1:]:  # the first is the request
            hint = hints[name]
            if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
                self.groups[name] = hint
                for field in msgspec.structs.fields(hint):
                    yield Parameter(field.name, "query", field.type, _default(field), name)
            elif name in in_path:
                yield Parameter(name, "path", hint)
            else:
                yield Parameter(
                    name, "query", hint, REQUIRED if argument.default is argument.empty else argument.default
                )

    def require_known(self, query: bytes, *, none_because: str) -> None:
        """Refuse a parameter that the route does not have, and one that is repeated but can have only one value."""
        seen: set[str] = set()
        for name, _ in self._pairs(query):
            if name not in self._query:
                must = f"one of {', '.join(sorted(self._query))}" if self._query else f"left out: {none_because}"
                raise errors.InvalidValue(what="query parameter", value=name[:40], must=must)
            if name in seen and not isinstance(self._types[name], ListType):
                raise errors.InvalidValue(what="query parameter", value=name, must="given once")
            seen.add(name)

    def read(self, path: dict[str, str], query: bytes) -> dict[str, Any]:
        """The arguments for the handler; `InvalidInput` names the first one that is wrong."""
        given: dict[str, list[str]] = {}
        for name, text in self._pairs(query):
            given.setdefault(name, []).append(text)
        values: dict[str, Any] = {}
        grouped: dict[str, dict[str, Any]] = {name: {} for name in self.groups}
        for one in sorted(self.all, key=lambda one: not one.group) if self.groups else self.all:
            texts = [path[one.name]] if one.place == "path" else given.get(one.name)
            if texts is None and one.default is REQUIRED:
                raise _wrong(one, "Field required")
            value = one.default if texts is None else self._value(one, texts)
            (grouped[one.group] if one.group else values)[one.name] = value
        return values | {name: self.groups[name](**fields) for name, fields in grouped.items()}

    def _pairs(self, query: bytes) -> list[tuple[str, str]]:
        given = parse_qsl(query.decode("latin-1"), keep_blank_values=True) if query else []
        return [(self._own_names.get(name, name), text) for name, text in given]

    def _value(self, one: Parameter, texts: list[str]) -> Any:
        kind = self._types[one.name]
        try:
            return _list_of(kind, texts) if isinstance(kind, ListType) else value_of(kind, texts[-1])
        except ValueError as problem:
            raise _wrong(one, str(problem)) from None


def _without_none(union: UnionType) -> Type:
    (found,) = (kind for kind in union.types if not isinstance(kind, NoneType))
    return found


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _wrong(one: Parameter, why: str) -> errors.InvalidInput:
    return errors.InvalidInput(reason=f"{one.place}.{one.name}: {why[:200]}")


# --- from text to values ---------------------------------------------------------------------------------------------


def value_of(kind: Type, text: str) -> Any:
    """The value of this type that a text stands for; `ValueError` says what is wrong with the text."""
    match kind:
        case BoolType():
            return _bool(text)
        case IntType():
            return _within(kind, _integer(text))
        case FloatType():
            return _within(kind, _float(text))
        case StrType():
            return _text(kind, text)
        case _:
            raise TypeError(f"no parameter has the type {kind}")


def _list_of(kind: ListType, texts: list[str]) -> list[Any]:
    if kind.max_length is not None and len(texts) > kind.max_length:
        raise ValueError(f"List should have at most {kind.max_length} items after validation, not {len(texts)}")
    return [value_of(kind.item_type, text) for text in texts]


def _bool(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError("Input should be a valid boolean, unable to interpret input")
    return text.lower() in _TRUE


def _integer(text: str) -> int:
    form = _INTEGER.fullmatch(text)
    if form is None:
        raise ValueError("Input should be a valid integer, unable to parse string as an integer")
    if len(text) > _DIGITS_MAX:
        raise ValueError("Unable to parse input string as an integer, exceeded maximum size")
    return int(form[1])


def _float(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise ValueError("Input should be a valid number, unable to parse string as a number") from None
    if not math.isfinite(found):
        raise ValueError("Input should be a finite number")
    return found


def _within(kind: IntType | FloatType, found: float) -> float:
    if kind.ge is not None and found < kind.ge:
        raise ValueError(f"Input should be greater than or equal to {kind.ge}")
    if kind.le is not None and found > kind.le:
        raise ValueError(f"Input should be less than or equal to {kind.le}")
    return found


def _text(kind: StrType, text: str) -> str:
    if kind.min_length is not None and len(text) < kind.min_length:
        raise ValueError(f"String should have at least {_characters(kind.min_length)}")
    if kind.max_length is not None and len(text) > kind.max_length:
        raise ValueError(f"String should have at most {_characters(kind.max_length)}")
    if kind.pattern is not None and not re.fullmatch(kind.pattern, text):
        raise ValueError(f"String should match pattern '{kind.pattern}'")
    return text


def _characters(count: int) -> str:
    return f"{count} character{'s' if count != 1 else ''}"
