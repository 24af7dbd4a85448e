"""Numbers of the reconciliation protocol: base 128, most significant digit first, the high bit on all but the last."""

from __future__ import annotations

from tallystick import errors

_BITS_MAX = 64
_DIGITS_MAX = 10


def varint(number: int) -> bytes:
    """The bytes of a number."""
    digits = [number & 127]
    while number := number >> 7:
        digits.append(number & 127 | 128)
    return bytes(reversed(digits))


class VarintReader:
    """Reads numbers and bytes from the start of a message. A message that is too short is refused."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._at = 0

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._message)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count > len(self._message) - self._at:
            raise errors.BadMessage(what="the reconciliation message", reason="it ends too early")
        found = self._message[self._at : self._at + count]
        self._at += count
        return found

    def number(self) -> int:
        """The next number."""
        found = 0
        for _ in range(_DIGITS_MAX):
            (digit,) = self.take(1)
            found = found << 7 | digit & 127
            if digit < 128 and not found >> _BITS_MAX:
                return found
        raise errors.BadMessage(what="the reconciliation message", reason="a number is past 64 bits")
