"""Decimals that add up to the same in every order: whole numbers, counted in the last place.

A number belongs there if its shortest form has at most so many places, and at most 15 digits in all: so many a double
holds without a doubt, so that a text, a double and a decimal of a database are the same number.
"""

from __future__ import annotations

PLACES_MAX = 4
DIGITS_MAX = 15


def scaled(value: int | float, places: int) -> int | None:
    """A number, counted in its last place; None if it has more places or digits than that.

    A double is the one that is nearest to a decimal if dividing gives it back: division is rounded to the nearest.
    """
    unit = 10**places
    if not abs(value) * unit < 10**DIGITS_MAX:
        return None
    found = round(value * unit)
    return found if found / unit == value and abs(found) < 10**DIGITS_MAX else None


def decimal(account: int, places: int) -> str:
    """The decimal text of what was counted in the last place."""
    digits = str(abs(account)).rjust(places + 1, "0")
    return f"{'-' if account < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def scaled_text(text: str, places: int) -> int:
    """What a decimal text was made of; without places the text is a whole number past 64 bits."""
    return int(text.replace(".", "")) if places else int(text)
