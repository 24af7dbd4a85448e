"""Event bodies from users, peers and attackers: those that must be refused, and odd ones that must be kept exactly."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from typing import Any

import msgspec


class Text(str):
    """A subclass of str."""


class Number(int):
    """A subclass of a number."""


class Colour(enum.Enum):
    """A constant."""

    RED = "red"


class Size(enum.IntEnum):
    """A constant that is a number too."""

    SMALL = 1


class Mapping(dict[str, Any]):
    """A mapping that is not a dict."""


class Sequence(list[Any]):
    """A sequence that is not a list."""


def nested(depth: int, leaf: Any = 1) -> Any:
    """A value with `depth` lists inside each other."""
    for _ in range(depth):
        leaf = [leaf]
    return leaf


def _endless() -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return loop


REFUSED_VALUES: dict[str, Any] = {
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
    "2^63": 1 << 63,
    "2^64": 1 << 64,
    "-2^63-1": -(1 << 63) - 1,
    "a 5,000-digit integer": 10**5000,
    "depth 100,000": nested(100_000),
    "depth 255": nested(255),
    "a loop": _endless(),
    "a lone surrogate": "\ud800",
    "a lone surrogate in a key": {"\udc00": 1},
    "U+0000 in a text": "a\0b",
    "U+0000 in a key": {"\0": 1},
    "bytes": b"x",
    "bytearray": bytearray(b"x"),
    "memoryview": memoryview(b"x"),
    "a tuple": (1, 2),
    "a set": {1},
    "a frozenset": frozenset({1}),
    "a UUID": uuid.UUID(int=1),
    "a datetime": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    "a date": datetime.date(2026, 1, 1),
    "a timedelta": datetime.timedelta(1),
    "a decimal": decimal.Decimal("1.5"),
    "an enum": Colour.RED,
    "an int enum": Size.SMALL,
    "a text subclass": Text("x"),
    "an int subclass": Number(1),
    "a dict subclass": Mapping(a=1),
    "a list subclass": Sequence([1]),
    "raw JSON": msgspec.Raw(b"1"),
    "an object": object(),
    "a function": nested,
    "an int key": {1: 2},
    "a huge int key": {10**5000: 1},
    "a None key": {None: 1},
    "a bool key": {True: 1},
    "a tuple key": {(1, 2): 1},
    "a bytes key": {b"x": 1},
    "a text subclass as key": {Text("x"): 1},
}

REFUSED_ROOTS: dict[str, Any] = {
    "None": None,
    "a list": [],
    "a number": 1,
    "a bool": True,
    "a float": 1.5,
    "a tuple": (),
    "a dict subclass": Mapping(a=1),
    "an empty text": "",
    "empty bytes": b"",
    "a text of null": "null",
    "an object": object(),
    "a class": dict,
}

REFUSED_TEXTS: dict[str, bytes] = {
    "NaN": b'{"x":NaN}',
    "Infinity": b'{"x":Infinity}',
    "-Infinity": b'{"x":-Infinity}',
    "1e999": b'{"x":1e999}',
    "-1e999": b'{"x": -1e999}',
    "1e-400": b'{"x":1e-400}',
    "-1E-400": b'{"x":[1,{"y": -1E-400}]}',
    "a one after 400 zeros": b'{"x":0.' + b"0" * 400 + b"1}",
    "duplicate keys": b'{"x":1,"x":2}',
    "duplicate keys, same value": b'{"x":1,"x":1}',
    "duplicate keys below": b'{"a":[{"x":1,"y":2,"x":1}]}',
    "duplicate keys by escape": b'{"x":1,"\\u0078":2}',
    "2^63": b'{"x":9223372036854775808}',
    "2^64": b'{"x":18446744073709551616}',
    "-2^63-1": b'{"x":-9223372036854775809}',
    "5,000 digits": b'{"x":' + b"9" * 5000 + b"}",
    "depth 100,000": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "depth 100,000, unclosed": b"[" * 100_000,
    "depth 255": b'{"x":' + b"[" * 254 + b"]" * 254 + b"}",
    "a lone surrogate": b'{"x":"\\ud800"}',
    "a lone low surrogate": b'{"x":"\\udc00"}',
    "surrogates the wrong way round": b'{"x":"\\udc00\\ud800"}',
    "a surrogate in UTF-8": b'{"x":"\xed\xa0\x80"}',
    "invalid UTF-8": b'{"x":"\xff"}',
    "overlong UTF-8": b'{"x":"\xc0\xaf"}',
    "cut UTF-8": b'{"x":"\xe2\x98"}',
    "invalid UTF-8 in a key": b'{"\xff":1}',
    "U+0000 escaped": b'{"x":"\\u0000"}',
    "U+0000 escaped in a key": b'{"\\u0000":1}',
    "U+0000 raw": b'{"x":"\0"}',
    "a raw newline in a text": b'{"x":"\n"}',
    "a byte order mark": b'\xef\xbb\xbf{"x":1}',
    "UTF-16": '{"x":1}'.encode("utf-16"),
    "UTF-16 without a mark": '{"x":1}'.encode("utf-16-le"),
    "UTF-32": '{"x":1}'.encode("utf-32"),
    "more empty objects than fit": b'{"x":[' + b",".join([b"{}"] * 600_000) + b"]}",
    "trailing bytes": b'{"x":1} x',
    "two values": b'{"x":1}{"x":1}',
    "a trailing comma": b'{"x":1,}',
    "a comment": b'{"x":1}//',
    "single quotes": b"{'x':1}",
    "a bare key": b"{x:1}",
    "an int key": b"{1:2}",
    "a leading zero": b'{"x":01}',
    "a leading plus": b'{"x":+1}',
    "a bare point": b'{"x":.5}',
    "hexadecimal": b'{"x":0x10}',
    "empty": b"",
    "blank": b"  ",
    "null": b"null",
    "a scalar": b"1",
    "a text": b'"x"',
    "a list": b"[]",
    "cut off": b'{"x":',
    "MessagePack, 4G items": b"\xdd\xff\xff\xff\xff",
    "MessagePack, a timestamp": b"\xd6\xff\x00\x00\x00\x01",
    "past twice the size": b'{"x":"' + b"a" * (2 << 20) + b'"}',
}

ACCEPTED_VALUES: dict[str, tuple[Any, bytes]] = {
    "2^53+1": ({"x": (1 << 53) + 1}, b'{"x":9007199254740993}'),
    "int64": ({"a": -(1 << 63), "b": (1 << 63) - 1}, b'{"a":-9223372036854775808,"b":9223372036854775807}'),
    "-0.0 and 1.0": ({"a": -0.0, "b": 1.0, "c": 1, "d": 0.0}, b'{"a":-0.0,"b":1.0,"c":1,"d":0.0}'),
    "keys of JavaScript": ({"__proto__": 1, "constructor": 2}, b'{"__proto__":1,"constructor":2}'),
    "an empty key": ({"": {"": ""}}, b'{"":{"":""}}'),
    "empty": ({}, b"{}"),
    "controls": ({"x": '\x01\x1f\x7f\b\f\n\r\t"\\/'}, b'{"x":"\\u0001\\u001f\x7f\\b\\f\\n\\r\\t\\"\\\\/"}'),
    "not only ASCII": ({"é": "☃😀\u2028\ufeff"}, '{"é":"☃😀\u2028\ufeff"}'.encode()),
    "keys by code point": ({"😀": 1, "\uffff": 2, "B": 3, "a": 4}, '{"B":3,"a":4,"\uffff":2,"😀":1}'.encode()),
    "null, true, false": ({"a": None, "b": True, "c": [False]}, b'{"a":null,"b":true,"c":[false]}'),
    "depth 254": ({"x": nested(253)}, b'{"x":' + b"[" * 253 + b"1" + b"]" * 253 + b"}"),
    "text that looks escaped": ({"x": "\\u0000 null"}, b'{"x":"\\\\u0000 null"}'),
}
LONG_KEY = "k" * (64 << 10)
