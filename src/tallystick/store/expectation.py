"""What a writer expects of a stream before its append: an exact seq, that it is new, or nothing."""

from __future__ import annotations

from tallystick import errors
from tallystick.event import limits, names

ANY = -1
NO_STREAM = 0


def check(expected: object) -> int:
    """The expectation as a number; anything but a seq, `NO_STREAM` or `ANY` is refused."""
    if type(expected) is int and ANY <= expected <= limits.INT_MAX:
        return expected
    raise errors.InvalidValue(what="expected", value=names.shown(expected), must="a seq (0, 1, 2 …), NO_STREAM or ANY")


def from_text(text: str) -> int:
    """The expectation written on a command line: a number, `none` or `any`."""
    words = {"any": ANY, "none": NO_STREAM}
    if text in words:
        return words[text]
    if text.isascii() and text.isdigit() and len(text) <= 19:
        return check(int(text))
    raise errors.InvalidValue(what="expected", value=text[:40], must="a number, 'none' or 'any'")
