"""Expectations, as numbers and as the words of the command line."""

from __future__ import annotations

import pytest

from tallystick import ANY, NO_STREAM, errors
from tallystick.store import expectation


@pytest.mark.parametrize(("text", "number"), [("any", ANY), ("none", NO_STREAM), ("0", 0), ("17", 17), ("007", 7)])
def test_words_and_numbers(text: str, number: int) -> None:
    """`any`, `none` and a seq are what can be expected."""
    assert expectation.from_text(text) == number


@pytest.mark.parametrize("text", ["", "-1", "ANY", "1.0", "1e3", "٣", "x", " 1", "9223372036854775808", "9" * 5000])
def test_anything_else_is_refused(text: str) -> None:
    """CP-02: a text that is no expectation is an error and not a guess."""
    with pytest.raises(errors.InvalidValue):
        expectation.from_text(text)
