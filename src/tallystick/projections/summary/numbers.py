"""Decimals whose sum does not depend on the order: whole numbers, counted in the last decimal place.

A number is accepted if its shortest form has at most `places` places, and at most 15 digits in all. A double holds 15
digits exactly, so a text, a double and a database's decimal are the same number.
"""

from __future__ import annotations

PLACES_MAX = 4
DIGITS_MAX = 15


def scaled(value: int | float, places: int) -> int | None:
    """A number, counted in its last place; None if it has too many places or digits.

    A double is the nearest one to a decimal if the division returns it: division rounds to the nearest double.
    """
    unit = 10**places
    if not abs(value) * unit < 10**DIGITS_MAX:
        return None
    found = round(value * unit)
    return found if found / unit == value and abs(found) < 10**DIGITS_MAX else None


def decimal(account: int, places: int) -> str:
    """The decimal text of a number that is counted in the last place."""
    digits = str(abs(account)).rjust(places + 1, "0")
    return f"{'-' if account < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def scaled_text(text: str, places: int) -> int:
    """The number of a decimal text, counted in the last place; without places it is a whole number past 64 bits."""
    return int(text.replace(".", "")) if places else int(text)
