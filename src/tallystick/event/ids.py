"""Event ids: UUIDv7, rising within a process even if the clock goes back. The same 128 bits can be read as a ULID."""

from __future__ import annotations

import os
import re
import secrets
import threading
import uuid

from tallystick import errors
from tallystick.event import names

_TAIL_BITS = 62
_UUID = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CROCKFORD_DIGITS = frozenset(_CROCKFORD)
_PAIRS = [one + other for one in _CROCKFORD for other in _CROCKFORD]
_FROM_CROCKFORD = str.maketrans(_CROCKFORD, "0123456789ABCDEFGHIJKLMNOPQRSTUV")  # the digits of int(text, 32)


class Minter:
    """Generates ids. One per process is enough; `default` is that one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._minting = False
        self._last_ms = -1
        self._next = 0

    def mint(self, count: int, *, time_ns: int) -> list[bytes]:
        """`count` new ids, each greater than all minted before."""
        with self._lock:
            if self._minting:  # this is a signal handler that came in between: it gets numbers of its own
                return Minter().mint(count, time_ns=time_ns)
            try:
                self._minting = True
                first = self._take(count, time_ns)
            finally:
                self._minting = False
        if count == 1:
            return [first.to_bytes(16, "big")]
        return [number.to_bytes(16, "big") for number in range(first, first + count)]

    def _take(self, count: int, time_ns: int) -> int:
        """The first of `count` numbers, which are taken from now on."""
        time_ms = max(time_ns // 1_000_000, 0)
        if time_ms > self._last_ms >= 0 and self._room() > count:
            self._next += (time_ms - self._last_ms) << 80  # the tail counts on: it is unique and cheap
            self._last_ms = time_ms
        elif time_ms > self._last_ms or self._room() < count:
            self._begin(max(time_ms, self._last_ms + 1))
        first = self._next
        self._next += count
        return first

    def _begin(self, time_ms: int) -> None:
        self._last_ms = time_ms
        random = secrets.randbits(12 + _TAIL_BITS - 1)  # the top tail bit is left clear, as room to count up
        high, low = random >> (_TAIL_BITS - 1), random & ((1 << (_TAIL_BITS - 1)) - 1)
        self._next = (time_ms & ((1 << 48) - 1)) << 80 | 7 << 76 | high << 64 | 2 << 62 | low

    def _room(self) -> int:
        return (1 << _TAIL_BITS) - (self._next & ((1 << _TAIL_BITS) - 1))

    def reset(self) -> None:
        """Forget the last numbers: a forked child must not continue with those of its parent."""
        self._lock = threading.RLock()
        self._minting = False
        self._last_ms = -1


default = Minter()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=default.reset)


def to_bytes(value: bytes | uuid.UUID | str) -> bytes:
    """The 16 bytes of an id given as bytes, UUID, or text with or without dashes."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, bytes) and len(value) == 16:
        return value
    if isinstance(value, str):
        try:
            return uuid.UUID(value).bytes if _UUID.fullmatch(value) else from_ulid(value)
        except ValueError:
            pass
    raise errors.InvalidValue(what="event id", value=names.display(value), must="16 bytes, a UUID or a ULID")


def to_text(value: bytes) -> str:
    """The id as UUID text."""
    return str(uuid.UUID(bytes=value))


def to_ulid(value: bytes) -> str:
    """The same 128 bits as the 26 characters of a ULID."""
    number = int.from_bytes(value, "big")
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def from_ulid(text: str) -> bytes:
    """The 16 bytes of a ULID."""
    if len(text) != 26 or text[0] > "7" or not _CROCKFORD_DIGITS.issuperset(text):
        raise ValueError(text)
    return int(text.translate(_FROM_CROCKFORD), 32).to_bytes(16, "big")
