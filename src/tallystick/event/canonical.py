"""Canonical JSON: exactly one byte string per value. Everything that is hashed, signed or compared is encoded here.

UTF-8; nothing escaped but what JSON must escape; keys sorted by code point; no spaces; floats in msgspec's shortest
round-trip form (`docs/formats/canonical-json.md` has the rule and vectors); integers within int64; 1.0 and -0.0 stay
as they are. Refused: NaN, infinities, larger integers, in text numbers so small that they would become zero, duplicate
keys, lone surrogates, U+0000, keys that are not strings, anything but JSON types, a root that is not an object, and
what is past the limits of depth, nodes and bytes.

Speed: msgspec makes the bytes, but accepts too much. So two strict C encoders check many values at once, and their
output is thrown away: ormsgpack refuses tuples, UUIDs, enums, dates and subclasses; orjson refuses bytes, sets,
integers past 53 bits and depth past 254. If one of them refuses, the values are walked in Python. Only the walk
decides, and it names the place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec
import orjson
import ormsgpack

from tallystick import errors
from tallystick.event import limits

_encoder = msgspec.json.Encoder(order="deterministic")
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines
_encode_as_given = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_STRICT_PACK = (
    ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
_STRICT_JSON = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")  # a packed float whose exponent is all ones, or text like it
_AT_ONCE = 256  # values that are encoded together; for more the buffers grow and are moved, which takes longer
_NODES_BYTES = 2 * limits.NODES_MAX - 2  # n bytes of JSON hold at most n/2 + 1 nodes


def encode(value: Any, *, what: str = "payload") -> bytes:
    """The canonical bytes of one JSON object."""
    try:
        encoded = _encode(value)
        if type(value) is dict and len(encoded) <= _NODES_BYTES and _finds_nothing([value], encoded):
            return encoded
    except Exception:  # whatever a C encoder trips over, the walk below says it properly
        encoded = b""
    check(value, what=what)
    return encoded or _encode(value)


def encode_many(values: Sequence[Any], *, what: str = "payload") -> list[bytes]:
    """The canonical bytes of many JSON objects. The first object without a canonical form is refused."""
    if len(values) <= _AT_ONCE:
        return _encode_some(values, what)
    parts = (values[at : at + _AT_ONCE] for at in range(0, len(values), _AT_ONCE))
    return [encoded for part in parts for encoded in _encode_some(part, what)]


def _encode_some(values: Sequence[Any], what: str) -> list[bytes]:
    try:
        encoded, joined = _encoded(values)
        if _surely_plain(values, encoded, joined):
            return encoded
    except Exception:  # whatever a C encoder trips over, the walk below says it properly
        encoded = []
    for value in values:
        check(value, what=what)
    return encoded or [_encode(value) for value in values]


def encode_state(value: Any) -> bytes:
    """The canonical bytes of any JSON value, an object or not, without the limits of nodes and bytes."""
    try:
        encoded = _encode(value)
        if _finds_nothing([value], encoded):
            return encoded
    except Exception:  # as above: the walk says it properly
        encoded = b""
    _Walk("state", nodes_max=None).value(value, 0)
    return encoded or _encode(value)


def decode(text: bytes, *, position: int = 0) -> Any:
    """The value of canonical bytes that this module made. `Damaged` names the position, if it is known, of bytes that
    are not JSON or contain a number that cannot be decoded.
    """
    try:
        return _decode(text)
    except msgspec.DecodeError as problem:
        reason = f"the bytes at position {position} are not JSON that the store wrote: {problem}"
        raise errors.Damaged(first=position, last=position, reason=reason) from problem


def check(value: Any, *, what: str = "payload") -> None:
    """Raise `NotCanonical` or `TooLarge`, with a JSON pointer, if the value has no canonical form."""
    if type(value) is not dict:
        raise errors.NotCanonical(what=what, pointer="", reason=f"the root is {_kind(value)}, not an object")
    _Walk(what, nodes_max=limits.NODES_MAX).value(value, 0)


def parse(text: bytes | str, *, what: str = "payload", bytes_max: int = 2 * limits.EVENT_BYTES_MAX) -> Any:
    """The value of JSON text from outside, as strict as `encode`.

    Refused: duplicate keys, numbers so small that they would become zero, and everything that JSON forbids.
    """
    raw = _as_utf8(text, what)
    if len(raw) > bytes_max:
        raise errors.TooLarge(what=what, size=len(raw), unit="bytes", limit=bytes_max)
    try:
        value = _decode(raw)
        if _encode_as_given(value) == raw:  # nothing was lost in decoding: no key appears twice
            return value
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        _refuse_text(what, problem)
    try:
        return _decode_unique(raw.decode())
    except _Lossy as lossy:
        raise errors.NotCanonical(what=what, pointer=lossy.pointer, reason=lossy.reason) from None
    except (ValueError, RecursionError) as problem:
        _refuse_text(what, problem)


def _encoded(values: Sequence[Any]) -> tuple[list[bytes], bytes]:
    """The bytes of each value, and of all together: they are encoded as lines, and split there."""
    lines = _encode_lines(values)
    encoded = lines.split(b"\n")
    encoded.pop()
    return encoded, lines


def _surely_plain(values: Sequence[Any], encoded: list[bytes], joined: bytes) -> bool:
    """Whether the fast checkers accept all values, and there are not too many nodes."""
    if not _finds_nothing(values, joined):
        return False
    if len(joined) > _NODES_BYTES and max(map(len, encoded)) > _NODES_BYTES:
        return False
    return set(map(type, values)) == {dict}


def _finds_nothing(values: Sequence[Any], joined: bytes) -> bool:
    """Whether both strict encoders accept the values, and they contain no NaN, infinity or U+0000."""
    packed = ormsgpack.packb(values, option=_STRICT_PACK)
    if b"\xcb" in packed and _NOT_FINITE.search(packed):  # NaN and infinities, which would become null
        return False
    orjson.dumps(values, option=_STRICT_JSON)
    return not (b"\\" in joined and b"\\u0000" in joined)  # one byte is found many times faster than six


class _Walk:
    """The exact rules, node by node. The pointer to a place is only written when something is refused there."""

    def __init__(self, what: str, *, nodes_max: int | None) -> None:
        self.what = what
        self.nodes_max = nodes_max
        self.nodes = 0
        self.path: list[str | int] = []

    def value(self, value: Any, depth: int) -> None:
        self.nodes += 1
        if self.nodes_max is not None and self.nodes > self.nodes_max:
            raise errors.TooLarge(what=self.what, size=self.nodes, unit="nodes or more", limit=self.nodes_max)
        kind = type(value)
        if kind is str:
            self.text(value)
        elif kind is int:
            if not limits.INT_MIN <= value <= limits.INT_MAX:
                self.refuse("the integer is beyond int64")
        elif kind is float:
            if value - value != 0.0:
                self.refuse(f"{value} is not a JSON number")
        elif kind is dict or kind is list:
            self.container(value, depth + 1)
        elif kind is not bool and value is not None:
            self.refuse(f"{_kind(value)} is not a JSON type")

    def container(self, value: Any, depth: int) -> None:
        if depth > limits.DEPTH_MAX:
            self.refuse(f"it is nested deeper than {limits.DEPTH_MAX}")
        path = self.path
        path.append("")
        if type(value) is list:
            for index, item in enumerate(value):
                path[-1] = index
                self.value(item, depth)
        else:
            for key, item in value.items():
                if type(key) is not str:
                    path.pop()
                    self.refuse(f"it has a key that is {_kind(key)}, not a string")
                path[-1] = key
                self.text(key)
                self.value(item, depth)
        path.pop()

    def text(self, value: str) -> None:
        if "\0" in value:
            self.refuse("the text contains U+0000")
        try:
            value.encode()
        except UnicodeEncodeError:
            self.refuse("the text contains a lone surrogate")

    def refuse(self, reason: str) -> NoReturn:
        pointer = "".join(f"/{escape_pointer(str(step)[:200])}" for step in self.path)
        raise errors.NotCanonical(what=self.what, pointer=_printable(pointer), reason=reason)


class _Lossy(Exception):
    """JSON text that would lose something if it was decoded."""

    def __init__(self, reason: str, *, pointer: str = "") -> None:
        self.reason = reason
        self.pointer = pointer


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs, if no key appears twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Lossy("the key appears twice", pointer="…/" + _printable(escape_pointer(key)))
            seen.add(key)
    return found


def _number(text: str) -> float:
    """The double of a literal with a point or an exponent; refused if it is too small for one and became zero."""
    value = float(text)
    if value == 0.0 and text.lower().partition("e")[0].strip("-0."):
        raise _Lossy(f"{text[:40]} is too small for a double: it would become {value}")
    return value


_decode_unique = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_number).decode


def _as_utf8(text: bytes | str, what: str) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise errors.NotCanonical(what=what, pointer="", reason="the text contains a lone surrogate") from None


def _refuse_text(what: str, problem: Exception) -> NoReturn:
    reason = "it is nested too deep" if isinstance(problem, RecursionError) else f"not JSON: {problem}"
    raise errors.NotCanonical(what=what, pointer="", reason=reason[:200]) from None


def _kind(value: Any) -> str:
    return type(value).__name__


def escape_pointer(key: str) -> str:
    """A key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _printable(pointer: str) -> str:
    return pointer[:200].encode("utf-8", "backslashreplace").decode()
