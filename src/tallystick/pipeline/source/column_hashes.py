"""The hashes of many events at once, by Arrow and numpy, without a line of Python per event.

The hashed texts are those of `event/chain.py` and of the blocks of an archive, byte for byte. A damaged column of text
may hold bytes that are not UTF-8; it is hashed as it is. The row `verify, payload and chain: processor time of an
event, largest log` measures the gain over `event/chain.py`.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallystick.event.chain import DOMAIN

HASH_BYTES = 32
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), dtype=np.uint16)
_NEWLINE = pa.scalar(b"\n")
_NOTHING = pa.scalar(b"")
_DOMAIN = pa.scalar(DOMAIN.encode())


def column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column of a batch; texts as bytes."""
    found = batch.column(name)
    return found.view(pa.binary()) if pa.types.is_string(found.type) else found


def hexes(found: pa.Array) -> pa.Array:
    """Bytes as lower-case hex; empty where a value is null."""
    found = found.fill_null(b"") if found.null_count else found
    ends, data = _placed(found)
    text = pa.py_buffer(_HEX[np.frombuffer(data, np.uint8)])
    placed = pa.py_buffer(((ends - ends[0]) * 2).astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(found), [None, placed, text])


def lines(positions: pa.Array, links: pa.Array) -> memoryview:
    """`position ‖ newline ‖ link in hex ‖ newline` of many events: the digest of a block is over these lines."""
    found = pc.binary_join_element_wise(_digits(positions), hexes(links), _NOTHING, _NEWLINE)
    return memoryview(_placed(found)[1])


def links_follow(events: pa.RecordBatch, before: pa.Array) -> np.ndarray:
    """For each event whether its link follows from the event and the link before; no column may have nulls."""
    its = [column(events, name) for name in ("stream", "seq", "type", "version", "id", "time", "meta", "checksum")]
    parts = [_part(one) for one in its]
    parts[4], parts[7] = hexes(its[4]), hexes(its[7])
    found = pc.binary_join_element_wise(_DOMAIN, hexes(before), *parts, _NEWLINE)
    return hash_to(found, column(events, "link"))


def rests(events: pa.RecordBatch) -> pa.Array:
    """The hashed text of each link after the previous link; null where a value is missing."""
    its = [column(events, name) for name in ("stream", "seq", "type", "version", "id", "time", "meta", "checksum")]
    parts = [_part(one) for one in its]
    for at in (4, 7):
        parts[at] = pc.if_else(its[at].is_valid(), hexes(its[at]), pa.scalar(None, pa.binary()))
    return pc.binary_join_element_wise(_NOTHING, *parts, _NEWLINE)


def hash_to(found: pa.Array, hashes: pa.Array) -> np.ndarray:
    """For each value whether it has this SHA-256; false where the value is null."""
    made = b"".join([sha256(one).digest() for one in _listed(found.fill_null(b"") if found.null_count else found)])
    same = pc.equal(
        pa.FixedSizeBinaryArray.from_buffers(_HASH, len(found), [None, pa.py_buffer(made)]), _hashes(hashes)
    )
    is_there = pc.is_valid(found) if found.null_count else None
    same = pc.fill_null(same if is_there is None else pc.and_(same, is_there), False)
    return np.asarray(same.to_numpy(zero_copy_only=False), bool)


_HASH = pa.binary(HASH_BYTES)


def _hashes(found: pa.Array) -> pa.Array:
    """Hashes as values of one size; null where a hash has another size."""
    if not pc.all(pc.equal(pc.binary_length(found), HASH_BYTES)).as_py() and len(found):
        found = pc.if_else(pc.equal(pc.binary_length(found), HASH_BYTES), found, pa.scalar(None, pa.binary()))
    return found.cast(_HASH)


def _listed(found: pa.Array) -> list[bytes]:
    listed: list[bytes] = found.to_numpy(zero_copy_only=False).tolist()
    return listed


def _part(found: pa.Array) -> pa.Array:
    return _digits(found) if pa.types.is_integer(found.type) else found


def _digits(found: pa.Array) -> pa.Array:
    return found.cast(pa.string()).view(pa.binary())


def _placed(found: pa.Array) -> tuple[np.ndarray, pa.Buffer | bytes]:
    """The offsets of the values in the bytes of all of them, and those bytes."""
    _, offsets, data = found.buffers()
    if not len(found) or data is None:
        return np.zeros(len(found) + 1, np.int32), b""
    ends = np.frombuffer(offsets, np.int32)[found.offset : found.offset + len(found) + 1]
    return ends, data.slice(int(ends[0]), int(ends[-1] - ends[0]))
