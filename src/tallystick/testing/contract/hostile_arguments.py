"""Everything around the body of an event that can be wrong: names, ids, versions, times, metas, windows, filters."""

from __future__ import annotations

import datetime
from typing import Any

from tallystick.testing.contract.hostile import Mapping, Text

BAD_STREAMS: dict[str, Any] = {
    "empty": "",
    "no slash": "order",
    "no kind": "/1",
    "no name": "order/",
    "upper case kind": "Order/1",
    "two slashes": "order/1/2",
    "a space": "order/a b",
    "a newline at the end": "order/1\n",
    "a newline before it": "\norder/1",
    "U+0000": "order/\0",
    "a lone surrogate": "order/\ud800",
    "not ASCII": "order/é",
    "a full-width digit": "order/１",
    "SQL": "order/a'; DROP TABLE events;--",
    "up the tree": "order/../../etc/passwd",
    "a dot in front": "order/.hidden",
    "a percent sign": "order/%2e",
    "a backslash": "order\\1",
    "kind too long": "a" * 97 + "/1",
    "name too long": "order/" + "a" * 192,
    "10 kB": "order/" + "a" * 10_000,
    "upper case run": "run/Abc",
    "None": None,
    "a number": 5,
    "a huge number": 10**5000,
    "bytes": b"order/1",
    "a list": ["order/1"],
    "a text subclass": Text("order/1"),
}

_NAMES: list[Any] = ["", "1x", "a b", "a/b", "é", "x\n", "x\0", "x\ud800", "x" * 129, None, True, 5, 10**5000, b"x"]
_IDS: list[Any] = [
    b"",
    b"x" * 15,
    b"x" * 17,
    "x" * 32,
    "0" * 33,
    " " + "1" * 31,
    "1_" * 16,
    5,
    10**5000,
    [],
    bytearray(16),
]
_VERSIONS: list[Any] = [0, -1, 1 << 31, 10**5000, "1", 1.0, True, b"1"]
_TIMES: list[Any] = [-1, 1 << 63, 10**5000, "2026-01-01", 1.5, True, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)]
_METAS: list[Any] = [
    [1],
    "org=acme",
    b'{"org":"acme"}',
    5,
    Mapping(org="acme"),
    {"org": 5},
    {"org": ""},
    {"org": None},
    {"org": "\ud800"},
    {"actor_type": "robot"},
    {"source": ["a"]},
    {"source": "a", "source_seq": 0},
    {"source": "a", "source_seq": "1"},
    {"source": "a", "source_seq": True},
    {"source": "a", "source_seq": 1.0},
    {"source": "a", "source_seq": 1 << 63},
    {"lamport": -1},
    {"tags": "a"},
    {"tags": {"a": 1}},
    {"tags": ["a", 1]},
    {1: 2},
    {"x": (1,)},
    {"x": b"y"},
]
_SIGNATURES: list[Any] = ["x" * 64, b"", b"x" * 63, b"x" * 65, 5, bytearray(64)]

BAD_FIELDS: dict[str, dict[str, Any]] = {
    f"{field} {number}": {field: value}
    for field, values in (
        ("type", _NAMES),
        ("id", _IDS),
        ("version", _VERSIONS),
        ("time", _TIMES),
        ("meta", _METAS),
        ("signature", _SIGNATURES),
    )
    for number, value in enumerate(values)
}

_BOUNDS: list[Any] = [-1, 1 << 63, 10**5000, "1", 1.0, True, []]
_LIMITS: list[Any] = [0, -1, 100_001, 10**5000, "1", 1.0, True, None]
BAD_WINDOWS: list[dict[str, Any]] = [
    {"after": None},
    *({"after": bad} for bad in _BOUNDS),
    *({"until": bad} for bad in _BOUNDS),
    *({"limit": bad} for bad in _LIMITS),
]

BAD_CONDITIONS: list[dict[str, Any]] = [
    {"stream": "order"},
    {"stream": "order/1\n"},
    {"stream": 5},
    {"type": "a b"},
    {"type": ""},
    {"type": 5},
    {"kind": "Order"},
    {"kind": "order/1"},
    {"kind": 5},
    {"org": ""},
    {"org": 5},
    {"org": "\ud800"},
    {"app": b"web"},
    {"env": "a\0b"},
    {"time_from": "yesterday"},
    {"time_from": 1.5},
    {"time_until": 1 << 63},
    {"time_until": True},
]
