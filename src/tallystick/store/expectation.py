"""What a writer expects of a stream before its append: that it ends at a seq, that it is new, or nothing."""

from __future__ import annotations

from typing import NewType

from tallystick import errors
from tallystick.event import limits, names

Expected = NewType("Expected", int)
"""A checked expectation: a seq, `NO_STREAM` or `ANY`. Users hand in plain numbers too; `check` turns them into this."""

ANY = Expected(-1)
NO_STREAM = Expected(0)


def check(expected: object) -> Expected:
    """The expectation, if it is a seq, `NO_STREAM` or `ANY`; otherwise `InvalidValue`."""
    if type(expected) is int and ANY <= expected <= limits.INT_MAX:
        return Expected(expected)
    raise errors.InvalidValue(
        what="expected", value=names.display(expected), must="a seq (0, 1, 2 …), NO_STREAM or ANY"
    )


def from_text(text: str) -> Expected:
    """The expectation written on a command line: a number, `none` or `any`."""
    words = {"any": ANY, "none": NO_STREAM}
    if text in words:
        return words[text]
    if text.isascii() and text.isdigit() and len(text) <= 19:
        return check(int(text))
    raise errors.InvalidValue(what="expected", value=text[:40], must="a number, 'none' or 'any'")
