"""Times on the command line: RFC 3339 in UTC for people, nanoseconds since 1970 for machines."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = re.compile(r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(?:[Zz]|([+-]\d\d:\d\d))?)?")


def to_text(time_ns: int) -> str:
    """The time as RFC 3339 text in UTC, to the nanosecond; only the number if it is after the year 9999."""
    seconds, fraction = divmod(time_ns, _SECOND)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return str(time_ns)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


def from_text(text: str) -> int:
    """Nanoseconds of an RFC 3339 time or a date (UTC unless it says otherwise), or of a plain number."""
    if text.isascii() and text.isdigit():
        return int(text)
    found = _FORM.fullmatch(text)
    if not found:
        raise ValueError(text)
    day, clock, fraction, zone = found.groups()
    moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone or '+00:00'}")
    whole = moment - _EPOCH
    return (whole.days * 86400 + whole.seconds) * _SECOND + int((fraction or "").ljust(9, "0"))


def option(text: str) -> int:
    """The time given to an option."""
    try:
        return from_text(text)
    except ValueError:
        form = "write 2026-01-31T12:00:00Z, 2026-01-31, or nanoseconds since 1970."
        raise click.BadParameter(f"{text!r} is not a time: {form}") from None
