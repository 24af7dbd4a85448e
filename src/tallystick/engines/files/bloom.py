"""A Bloom filter over names, or digests of 16 bytes: says without reading an index that it does not know one."""

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
    """False only if the name was certainly not among those the filter was built from."""
    return all(field[bit >> 3] >> (bit & 7) & 1 for bit in _probes(name, len(field) * 8))


def _probes(name: str | bytes, bits: int) -> list[int]:
    digest = name if isinstance(name, bytes) else hashlib.blake2b(name.encode(), digest_size=16).digest()
    first, step = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") | 1
    return [(first + number * step) % bits for number in range(PROBES)]
