"""Range-based set reconciliation: the negentropy protocol, version 1, from its public description.

    message  = 0x61, range …
    range    = upper bound, mode (varint), payload; it starts where the one before ends, the first one at 0
    bound    = time (varint: 0 for infinity, otherwise 1 + the distance from the bound before), prefix length, prefix
    mode 0   skip this range
    mode 1   fingerprint: 16 bytes (items.py)
    mode 2   list: the number of items (varint), then 32 bytes each

The initiator sends a message, each side answers the ranges that differ with finer ones, and at the end the initiator
knows which items only it has and which it lacks. The responder keeps no state between messages. The time of an item is
its lamport, the id its 32-byte link.
"""

from __future__ import annotations

from collections.abc import Iterator

from tallystick import errors
from tallystick.community.items import FINGERPRINT_BYTES, LINK_BYTES, Item, Items
from tallystick.community.varint import VarintReader, varint

VERSION = 0x61
INFINITY = (1 << 64) - 1
SKIP, FINGERPRINT, LIST = 0, 1, 2
BUCKETS = 16
FRAME_BYTES_MIN = 4096
FRAME_BYTES_MAX = 256 << 10
MESSAGE_BYTES_MAX = 1 << 20
RANGES_MAX = 32_768  # more than one of our messages can hold: what is read is bounded by work, not by bytes
_RESERVE_BYTES = 200
_END: Item = (INFINITY, b"")


class _Writer:
    """Writes bounds. A time is written as the distance from the one before."""

    def __init__(self) -> None:
        self.out = bytearray([VERSION])
        self._last = 0

    def bound(self, bound: Item) -> None:
        time, prefix = bound
        if time == INFINITY:
            encoded, self._last = 0, INFINITY
        else:
            encoded, self._last = time - self._last + 1, time
        self.out += varint(encoded) + varint(len(prefix)) + prefix

    def skip(self, bound: Item) -> None:
        self.bound(bound)
        self.out += varint(SKIP)

    def fingerprint(self, bound: Item, fingerprint: bytes) -> None:
        self.bound(bound)
        self.out += varint(FINGERPRINT) + fingerprint

    def links(self, bound: Item, items: list[Item]) -> None:
        self.bound(bound)
        self.out += varint(LIST) + varint(len(items)) + b"".join([link for _, link in items])


class _Bounds:
    """Reads bounds."""

    def __init__(self, reader: VarintReader) -> None:
        self._reader = reader
        self._last = 0

    def next(self) -> Item:
        encoded = self._reader.number()
        time = INFINITY if encoded == 0 else min(self._last + encoded - 1, INFINITY)
        self._last = time
        length = self._reader.number()
        if length > LINK_BYTES:
            raise errors.BadMessage(what="the reconciliation message", reason="a bound is longer than an id")
        return (time, self._reader.take(length))


class Reconciler:
    """One side of a reconciliation over a sealed set. The initiator fills `have` and `need`."""

    def __init__(self, items: Items, *, frame_bytes: int = FRAME_BYTES_MAX) -> None:
        if frame_bytes < FRAME_BYTES_MIN:
            raise errors.InvalidValue(what="frame_bytes", value=frame_bytes, must=f"at least {FRAME_BYTES_MIN}")
        self._items = items
        self._frame_bytes = frame_bytes - _RESERVE_BYTES
        self._began = False
        self.have: set[bytes] = set()
        self.need: set[bytes] = set()

    def begin(self) -> bytes:
        """The first message."""
        self._began = True
        writer = _Writer()
        self._split(writer, 0, len(self._items), _END)
        return bytes(writer.out)

    def answer(self, message: bytes) -> bytes | None:
        """The answer to a message; None for the initiator when nothing is left to ask."""
        if len(message) > MESSAGE_BYTES_MAX:
            reason = f"it has more than {MESSAGE_BYTES_MAX} bytes"
            raise errors.BadMessage(what="the reconciliation message", reason=reason)
        reader = VarintReader(message)
        version = reader.take(1)[0]
        if version != VERSION:
            if self._began or not 0x60 <= version <= 0x6F:
                raise errors.BadMessage(what="the reconciliation message", reason=f"version {version:#x} is unknown")
            return bytes([VERSION])
        writer = _Writer()
        self._ranges(reader, writer)
        if self._began and len(writer.out) == 1:
            return None
        return bytes(writer.out)

    def _ranges(self, reader: VarintReader, writer: _Writer) -> None:
        bounds = _Bounds(reader)
        lower, before, pending = 0, (0, b""), False
        for _ in range(RANGES_MAX):
            if reader.done:
                return
            bound = bounds.next()
            if bound < before:
                raise errors.BadMessage(what="the reconciliation message", reason="its bounds do not ascend")
            mode = reader.number()
            upper = self._items.find(bound, lower)
            answered, reached = self._range(reader, writer, mode, lower, upper, bound, before if pending else None)
            if reached < upper or len(writer.out) > self._frame_bytes:  # the next round covers the rest
                writer.fingerprint(_END, self._items.fingerprint(reached, len(self._items)))
                return
            pending = not answered
            lower, before = upper, bound
        if not reader.done:
            raise errors.BadMessage(what="the reconciliation message", reason=f"it has more than {RANGES_MAX} ranges")

    def _range(
        self,
        reader: VarintReader,
        writer: _Writer,
        mode: int,
        lower: int,
        upper: int,
        bound: Item,
        skipped: Item | None,
    ) -> tuple[bool, int]:
        """Answer one range. Returns whether something was written, and the index up to which it was answered."""
        if mode == SKIP:
            return False, upper
        if mode == FINGERPRINT:
            if reader.take(FINGERPRINT_BYTES) == self._items.fingerprint(lower, upper):
                return False, upper
            _catch_up(writer, skipped)
            self._split(writer, lower, upper, bound)
            return True, upper
        if mode != LIST:
            raise errors.BadMessage(what="the reconciliation message", reason=f"mode {mode} is unknown")
        theirs = set(self._links(reader))
        if self._began:
            ours = {link for _, link in self._items.items[lower:upper]}
            self.have |= ours - theirs
            self.need |= theirs - ours
            return False, upper
        _catch_up(writer, skipped)
        return True, self._list(writer, lower, upper, bound)

    def _links(self, reader: VarintReader) -> Iterator[bytes]:
        for _ in range(reader.number()):  # bounded by the message: each item takes 32 bytes
            yield reader.take(LINK_BYTES)

    def _list(self, writer: _Writer, lower: int, upper: int, bound: Item) -> int:
        """Write the items of a range that fit. Returns the index after the last one."""
        room = max((self._frame_bytes - len(writer.out)) // LINK_BYTES, 1)
        if upper - lower > room:
            upper = lower + room
            bound = self._items.items[upper]
        writer.links(bound, self._items.items[lower:upper])
        return upper

    def _split(self, writer: _Writer, lower: int, upper: int, bound: Item) -> None:
        """Refine a range: list its items if they are few, otherwise send the fingerprints of sixteen parts."""
        count = upper - lower
        if count < 2 * BUCKETS:
            writer.links(bound, self._items.items[lower:upper])
            return
        each, extra = divmod(count, BUCKETS)
        at = lower
        for bucket in range(BUCKETS):
            end = at + each + (bucket < extra)
            upto = bound if end == upper else _least_bound(self._items.items[end - 1], self._items.items[end])
            writer.fingerprint(upto, self._items.fingerprint(at, end))
            at = end


def _catch_up(writer: _Writer, skipped: Item | None) -> None:
    if skipped is not None:
        writer.skip(skipped)


def _least_bound(before: Item, item: Item) -> Item:
    """The shortest bound that is after one item and not after the next."""
    if before[0] != item[0]:
        return (item[0], b"")
    shared = 0
    while before[1][shared] == item[1][shared]:
        shared += 1
    return (item[0], item[1][: shared + 1])
