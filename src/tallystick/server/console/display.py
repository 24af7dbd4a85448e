"""Values as text for people: times, sizes and payloads. Characters that hide or reverse text are made visible.

The templates escape the text for HTML.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

PAYLOAD_CHARACTERS_MAX = 64_000
GLANCE_CHARACTERS_MAX = 110

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_LAYOUT = frozenset("\n\t")


def plain(text: str) -> str:
    """A text in which every character is visible. Characters that reverse, join or hide others are shown by number."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(character) for character in text)


def _seen(character: str) -> str:
    if character in _LAYOUT or unicodedata.category(character) not in _HIDDEN:
        return character
    return f"‹U+{ord(character):04X}›"


def finalize(value: Any) -> Any:
    """What templates print of a value: visible text, and nothing for None."""
    if value is None:
        return ""
    return plain(value) if type(value) is str else value


def instant(ns: int) -> str:
    """A time for machines, to the microsecond."""
    return (_EPOCH + timedelta(microseconds=ns // 1000)).isoformat().replace("+00:00", "Z")


def moment(ns: int) -> str:
    """A time for people, UTC, to the millisecond."""
    return (_EPOCH + timedelta(microseconds=ns // 1000)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def ago(ns: int, now: int) -> str:
    """How long ago something was, approximately."""
    passed = (now - ns) / 1e9
    if passed < 0:
        return "in the future"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if passed >= 2 * size:
            return f"{passed / size:.0f} {unit} ago"
    return f"{passed:.0f} s ago" if passed >= 2 else "just now"


def count(number: int | float | None) -> str:
    """A number with separated thousands."""
    return "–" if number is None else f"{number:,.0f}"


def size(number: int | float | None) -> str:
    """A size in bytes for people."""
    if number is None:
        return "unknown"
    given = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if given < 1000:
            return f"{given:.1f} {unit}" if given < 10 and unit != "B" else f"{given:.0f} {unit}"
        given /= 1000
    return f"{given:.1f} TB"


def pretty(text: bytes, most: int = PAYLOAD_CHARACTERS_MAX) -> tuple[str, int]:
    """Indented JSON, with numbers as they were written; and how many characters were cut off."""
    return cut(plain(msgspec.json.format(text, indent=2).decode()), most)


def cut(text: str, most: int) -> tuple[str, int]:
    """The beginning of a text, and how many characters were cut off."""
    return text[:most], max(0, len(text) - most)


def glance(payload: bytes | None) -> str:
    """The beginning of a payload, for one line of a list."""
    if payload is None:
        return "erased"
    text = plain(payload[: 4 * GLANCE_CHARACTERS_MAX].decode(errors="ignore"))
    return text if len(text) <= GLANCE_CHARACTERS_MAX else text[: GLANCE_CHARACTERS_MAX - 1] + "…"


def tally(number: int) -> list[list[int]]:
    """A number as groups of tally marks: fives, and what is left."""
    return [[5]] * (number // 5) + ([[number % 5]] if number % 5 else [])
