"""A summary compiled to Python: one loop that decodes each payload once, and only the fields that are measured.

The source is built from the column `python` of the table of measures. It contains only our own names and numbers,
nothing that a user wrote: fields, types and functions are bound to names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tallystick.event.model import Event
from tallystick.projections.summary import measures, numbers
from tallystick.projections.summary.fields import path
from tallystick.projections.summary.measures import Measure
from tallystick.store.summary_sql import DECIMAL, INTEGER, TEXT
from tallystick.store.views import ABSENT, BY_KIND, BY_PAYLOAD, BY_STREAM, KEY_CHARACTERS_MAX, value_at

Accounts = dict[str, list[Any]]
Fold = Callable[[Iterable[Event]], Accounts]

NS = 1_000_000_000
_TAKES = {INTEGER: "type({v}) is int", DECIMAL: "{v} is not None", TEXT: "type({v}) is str"}
_KEYS = {BY_STREAM: "event.stream", BY_KIND: "event.stream.partition('/')[0]"}
_LOOP = """
def fold(events):
    accounts = {}
    for event in events:
        payload = event.payload
        try:
            if payload is not None and type(event) is Event:
                p = decode(payload)
                VALUES = READ
            else:
                VALUES = lift(event)
        except DecodeError:
            VALUES = lift(event)
        KEY
        a = accounts.get(key)
        if a is None:
            a = accounts[key] = [ZEROS]
BODY
    return accounts
"""


def compile_fold(
    key: str,
    listed: Sequence[Measure],
    *,
    key_of: Callable[[Event], str | None],
    refuse: Callable[[Event, Measure, Any], None],
) -> Fold:
    """The fold of a summary: the accounts of each key from these events alone."""
    paths = [path(measure.field) for measure in listed if measure.field is not None]
    paths = list(dict.fromkeys([*paths, key] if key.startswith(BY_PAYLOAD) else paths))
    is_nested = any(
        other.startswith(f"{one}.") for one in paths for other in paths
    )  # then no struct can have this shape
    names: dict[str, Any] = {
        "Event": None if is_nested else Event,
        "DecodeError": msgspec.DecodeError,
        "decode": msgspec.json.Decoder(shape(paths)).decode,
        "lift": lifter(paths),
        "key_of": key_of,
        "refuse": refuse,
        "tag": measures.tag,
        "push": measures.push,
        "scaled": numbers.scaled,
    }
    for at, measure in enumerate(listed):
        names |= {f"m{at}": measure, f"of{at}": frozenset(measure.of), f"zero{at}": measure.operator.zero}
    exec(compile(_source(key, listed, paths), "<summary>", "exec"), names)
    fold: Fold = names["fold"]
    return fold


def _source(key: str, listed: Sequence[Measure], paths: Sequence[str]) -> str:
    values = "".join(f"f{at}, " for at in range(len(paths))) or "_"
    body = (line for at, measure in enumerate(listed) for line in _lines(at, measure, paths))
    parts = {
        "KEY": f"key = {_KEYS[key]}" if key in _KEYS else _key_in_payload(paths.index(key)),
        "BODY": "\n".join(" " * 8 + line for line in body),
        "ZEROS": ", ".join("{}" if measure.per else f"zero{at}()" for at, measure in enumerate(listed)),
        "READ": _access(paths) if paths else "None",
        "VALUES": values,
    }
    source = _LOOP
    for place, text in parts.items():
        source = source.replace(place, text)
    return source


def _key_in_payload(at: int) -> str:
    """The lines that find the key; an event whose key was erased has none, and is skipped."""
    found = f"key = f{at} if type(f{at}) is str and 0 < len(f{at}) <= {KEY_CHARACTERS_MAX:d} else key_of(event)"
    return f"{found}\n        if key is None:\n            continue"


def _lines(at: int, measure: Measure, paths: Sequence[str]) -> list[str]:
    """The lines for one measure."""
    value = taken = "" if measure.field is None else f"f{paths.index(path(measure.field))}"
    conditions = [f"event.type in of{at}"] if measure.of else []
    lines = [f"if {' and '.join([*conditions, f'{value} is not None'] if value else conditions) or 'True'}:"]
    if measure.takes == DECIMAL:
        taken = "number"
        lines.append(f"    number = scaled({value}, {measure.places:d}) if type({value}) in (int, float) else None")
    if measure.takes in _TAKES:
        lines += [f"    if not ({_TAKES[measure.takes].format(v=taken)}):", f"        refuse(event, m{at}, {value})"]
    slot = f"a[{at:d}]"
    if measure.per:
        lines += [f"    window = event.time // {measure.per * NS:d}", f"    d = {slot}", "    if window not in d:"]
        lines.append(f"        d[window] = zero{at}()")
        slot = "d[window]"
    return [*lines, "    " + measure.operator.python.format(a=slot, v=taken, size=measure.size)]


# --- reading ---------------------------------------------------------------------------------------------------------


def lifter(paths: Sequence[str]) -> Callable[[Event], tuple[Any, ...]]:
    """A function for the values of an event that was erased or upcast, or whose payload has another shape."""

    def lift(event: Event) -> tuple[Any, ...]:
        found = (value_at(path, event) for path in paths)
        return tuple(None if value is ABSENT else value for value in found)

    return lift


def shape(paths: Sequence[str], *, filled: bool = False) -> type:
    """A struct for the fields of a payload that are measured. Payloads of another shape go through `lifter`.

    `filled`: a missing object is an empty one.
    """
    tree: dict[str, Any] = {}
    for path_ in paths:
        inner = tree
        for step in path_.removeprefix(BY_PAYLOAD).split("."):
            inner = inner.setdefault(step, {})
    return _struct(tree, filled)


def _struct(tree: dict[str, Any], filled: bool) -> type:
    fields: list[Any] = []
    for step, inner in tree.items():
        kind: Any = _struct(inner, filled) if inner else Any
        if filled and inner:
            fields.append((_name(step), kind, msgspec.field(default_factory=kind)))
        else:
            fields.append((_name(step), kind | None if inner else kind, None))
    renamed = {_name(step): step for step in tree}
    return msgspec.defstruct("Payload", fields, rename=renamed, gc=False)


def attribute(path: str) -> str:
    """The attribute path of a value in a `shape`, if no object on the way is missing."""
    return ".".join(map(_name, path.removeprefix(BY_PAYLOAD).split(".")))


def _name(step: str) -> str:
    """A valid attribute name for any field name."""
    return f"x{step.encode().hex()}"


def _access(paths: Sequence[str]) -> str:
    """Expressions for the values in the decoded payload `p`."""
    return "".join(f"{_reached(path_.removeprefix(BY_PAYLOAD).split('.'))}, " for path_ in paths)


def _reached(steps: Sequence[str]) -> str:
    found = f"p.{_name(steps[0])}"
    for step in steps[1:]:
        found = f"(None if (q := {found}) is None else q.{_name(step)})"
    return found
