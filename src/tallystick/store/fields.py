"""The rules for single fields of an event: reserved types, versions, times, signatures."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tallystick import errors
from tallystick.event import limits, names

SIGNATURE_BYTES = 64  # Ed25519


def check_reserved(types: list[str], streams: Sequence[str]) -> None:
    """Refuse types of control facts in other streams than those of control facts."""
    if any(map(names.is_reserved, set(types))):
        for type_, stream in zip(types, streams, strict=True):
            if names.is_reserved(type_) and not names.is_reserved(stream):
                raise errors.ReservedName(name=type_)


def check_version(version: object) -> int:
    """The version, if it is one."""
    if type(version) is int and 1 <= version <= names.VERSION_MAX:
        return version
    raise errors.InvalidValue(what="version", value=names.display(version), must="from 1 to 2^31-1")


def warn_of_size(what: str, size: int) -> None:
    """Warn of an event that is larger than advised. If warnings are errors, that event is refused, not its group."""
    advised = limits.EVENT_BYTES_ADVISED
    text = f"{what} has {size} bytes, more than the advised {advised}"
    try:  # the ninth frame up from here is the one that called Store.append
        warnings.warn(text, errors.LargeEventWarning, stacklevel=9)
    except errors.LargeEventWarning:
        raise errors.TooLarge(what=what, size=size, unit="bytes", limit=advised) from None


def times(given: list[Any], now: int) -> list[int]:
    """The times that were given, and `now` for events without one."""
    if given.count(None) == len(given):
        return [now] * len(given)
    return [now if one is None else check_time(one) for one in given]


def check_time(given: object, *, what: str = "time") -> int:
    """The time, if it is one."""
    if type(given) is int and 0 <= given <= limits.INT_MAX:
        return given
    must = "nanoseconds since 1970 as an int, from 0 to 2^63-1"
    raise errors.InvalidValue(what=what, value=names.display(given), must=must)


def checked_clock(clock: Callable[[], int]) -> Callable[[], int]:
    """The clock, but a time that no event can have is refused before anything is written."""
    if clock is time.time_ns:  # the system has no such time
        return clock

    def checked() -> int:
        now = clock()
        return now if type(now) is int and 0 <= now <= limits.INT_MAX else check_time(now, what="the clock's time")

    return checked


def require_signed(signatures: list[bytes | None], streams: Sequence[str]) -> None:
    """Refuse unsigned events in the feeds of a community. Only the log itself writes what it keeps aside."""
    for signature, stream in zip(signatures, streams, strict=True):
        if signature is None and stream.startswith(names.FEEDS):
            must = f"its author's, 64 bytes: {stream.partition('/')[0]!r} holds only signed events"
            raise errors.InvalidValue(what="signature", value="none", must=must)


def check_signatures(signatures: list[bytes | None]) -> list[bytes | None]:
    """The signatures, if each is None or has the form of a signature."""
    if signatures.count(None) != len(signatures):
        for signature in signatures:
            if signature is not None and (type(signature) is not bytes or len(signature) != SIGNATURE_BYTES):
                raise errors.InvalidValue(what="signature", value=names.display(signature), must="64 bytes, or None")
    return signatures
