"""What single fields of an event must be: types that are not ours, versions, times, signatures."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tallystick import errors
from tallystick.event import limits, names

SIGNATURE_BYTES = 64  # Ed25519


def check_reserved(types: list[str], streams: Sequence[str]) -> None:
    """Types of control facts stand in streams of control facts alone."""
    if any(map(names.is_reserved, set(types))):
        for type_, stream in zip(types, streams, strict=True):
            if names.is_reserved(type_) and not names.is_reserved(stream):
                raise errors.ReservedName(name=type_)


def check_version(version: object) -> int:
    """The version, if it can be one."""
    if type(version) is int and 1 <= version <= names.VERSION_MAX:
        return version
    raise errors.InvalidValue(what="version", value=names.shown(version), must="from 1 to 2^31-1")


def warn_of_size(what: str, size: int) -> None:
    """Warn of an event past the advised size. Where warnings are errors it is refused, and not its whole group."""
    advised = limits.EVENT_BYTES_ADVISED
    text = f"{what} has {size} bytes, more than the advised {advised}"
    try:  # the ninth frame up from here is the one that called Store.append
        warnings.warn(text, errors.LargeEventWarning, stacklevel=9)
    except errors.LargeEventWarning:
        raise errors.TooLarge(what=what, size=size, unit="bytes", limit=advised) from None


def times(given: list[Any], now: int) -> list[int]:
    """The times that were given, and now where none was."""
    if given.count(None) == len(given):
        return [now] * len(given)
    return [now if time is None else check_time(time) for time in given]


def check_time(time: object, *, what: str = "time") -> int:
    """The time, if it can be one."""
    if type(time) is int and 0 <= time <= limits.INT_MAX:
        return time
    must = "nanoseconds since 1970 as an int, from 0 to 2^63-1"
    raise errors.InvalidValue(what=what, value=names.shown(time), must=must)


def checked_clock(clock: Callable[[], int]) -> Callable[[], int]:
    """The clock, except that an answer which no event could carry is refused before anything is written."""

    def checked() -> int:
        now = clock()
        return now if type(now) is int and 0 <= now <= limits.INT_MAX else check_time(now, what="the clock's time")

    return checked


def require_signed(signatures: list[bytes | None], streams: Sequence[str]) -> None:
    """Refuse events of a community that nobody signed. What is kept aside comes past here, from the log alone."""
    for signature, stream in zip(signatures, streams, strict=True):
        if signature is None and stream.startswith(names.FEEDS):
            must = f"its author's, 64 bytes: {stream.partition('/')[0]!r} holds signed events alone"
            raise errors.InvalidValue(what="signature", value="none", must=must)


def check_signatures(signatures: list[bytes | None]) -> list[bytes | None]:
    """The signatures, if each has the form of one or is left out."""
    if signatures.count(None) != len(signatures):
        for signature in signatures:
            if signature is not None and (type(signature) is not bytes or len(signature) != SIGNATURE_BYTES):
                raise errors.InvalidValue(what="signature", value=names.shown(signature), must="64 bytes, or None")
    return signatures
