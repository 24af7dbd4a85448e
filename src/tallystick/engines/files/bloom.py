"""A Bloom filter over names, or digests of 16 bytes: it can say that an index does not know one without reading it.

    10 bits per name, at least 64; bit n is in byte n // 8, counted from the lowest bit
    six bits of a name are set: (first + k * step) % bits, for k from 0 to 5

`first` and `step` are the halves of the name's 16-byte BLAKE2b, big-endian; the lowest bit of `step` is set. A digest
is used as it is. Invariant: a name that was put in is never denied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

BITS_PER_NAME = 10
PROBES = 6


def build(names: Iterable[str | bytes], count: int) -> bytes:
    """The filter of `count` names."""
    bits = max(count * BITS_PER_NAME, 64)
    field = bytearray((bits + 7) // 8)
    for name in names:
        for bit in _probes(name, len(field) * 8):
            field[bit >> 3] |= 1 << (bit & 7)
    return bytes(field)


def may_hold(field: bytes, name: str | bytes) -> bool:
    """False only if the filter was not built from this name."""
    return all(field[bit >> 3] >> (bit & 7) & 1 for bit in _probes(name, len(field) * 8))


def _probes(name: str | bytes, bits: int) -> list[int]:
    digest = name if isinstance(name, bytes) else hashlib.blake2b(name.encode(), digest_size=16).digest()
    first, step = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") | 1
    return [(first + number * step) % bits for number in range(PROBES)]
