"""Reading a segment frame by frame, and finding the next frame after bytes that are not a frame."""

from __future__ import annotations

from collections.abc import Iterator

from tallystick.engines.files import frame as frames
from tallystick.engines.files.frame import Frame
from tallystick.store.filesystem import File

CHUNK_BYTES_MIN = 256 << 10  # a page needs little, a replay much: chunks double as it goes
CHUNK_BYTES_MAX = 4 << 20
SEARCH_BYTES = 1 << 20


class Scanner:
    """Walks over verified frames from an offset on.

    It stops at `end`, or at the first bytes that are not a valid frame with the next position. `offset` and `position`
    then say where it stopped. With `position` None, the first frame may begin at any position.
    """

    def __init__(self, file: File, identity: bytes, *, offset: int, end: int, position: int | None) -> None:
        self._file = file
        self._identity = identity
        self._end = end
        self.offset = offset
        self.position = position

    @property
    def clean(self) -> bool:
        """Whether everything up to the end was valid."""
        return self.offset == self._end

    def __iter__(self) -> Iterator[tuple[Frame, bytes]]:
        chunk, chunk_at, wanted = b"", self.offset, CHUNK_BYTES_MIN
        while self.offset < self._end:
            at = self.offset - chunk_at
            frame = frames.decode_header(self._identity, chunk, offset=self.offset, at=at)
            if frame is None or len(chunk) - at < frame.end - frame.offset:
                needed = wanted if frame is None else max(wanted, frame.end - frame.offset)
                chunk = self._file.read_at(self.offset, min(needed, self._end - self.offset))
                wanted = min(2 * wanted, CHUNK_BYTES_MAX)
                chunk_at, at = self.offset, 0
                frame = frames.decode_header(self._identity, chunk, offset=self.offset)
                if frame is not None and len(chunk) < frame.end - frame.offset <= self._end - self.offset:
                    chunk = self._file.read_at(self.offset, frame.end - frame.offset)
            if frame is None or frame.end > self._end or self.position not in (None, frame.first_position):
                return
            body = frames.body_of(self._identity, chunk, frame, at=at)
            if body is None:
                return
            self.offset, self.position = frame.end, frame.next_position
            yield frames.with_digest(frame, chunk, at=at), body


def next_valid_frame(file: File, identity: bytes, *, begin: int, end: int, position: int) -> Frame | None:
    """The first valid frame at or after `begin` that covers positions from `position` on."""
    at = begin
    while at < end:
        data = file.read_at(at, min(SEARCH_BYTES, end - at))
        found = data.find(frames.MAGIC_BYTES)
        while found >= 0:
            frame = _whole_frame(file, identity, at + found, end)
            if frame is not None and frame.first_position >= position:
                return frame
            found = data.find(frames.MAGIC_BYTES, found + 1)
        if len(data) < SEARCH_BYTES:
            return None
        at += len(data) - len(frames.MAGIC_BYTES) + 1
    return None


def _whole_frame(file: File, identity: bytes, offset: int, end: int) -> Frame | None:
    frame = frames.decode_header(identity, file.read_at(offset, frames.HEADER_SIZE), offset=offset)
    if frame is None or frame.end > end:
        return None
    data = file.read_at(offset, frame.end - offset)
    return frame if frames.body_of(identity, data, frame) is not None else None


def read_frame(file: File, identity: bytes, offset: int, end: int) -> tuple[Frame, bytes] | None:
    """The verified frame at an offset that an index names; None if there is no valid frame."""
    head = file.read_at(offset, min(frames.HEADER_SIZE + 4096, end - offset))  # most frames come with one read
    frame = frames.decode_header(identity, head, offset=offset)
    if frame is None or frame.end > end:
        return None
    data = head if len(head) >= frame.end - offset else file.read_at(offset, frame.end - offset)
    body = frames.body_of(identity, data, frame)
    return None if body is None else (frames.with_digest(frame, data), body)
