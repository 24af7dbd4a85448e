"""Commands of a file log. The record is in the frame of its events; an index finds the frame by a digest of the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from tallystick.engines.files import index, side
from tallystick.engines.files.segments import Segment
from tallystick.engines.files.view import LogView
from tallystick.store.idempotency import CommandKey, CommandRecord


class FileCommands:
    """The commands of an open log. `forget_all` commits that digests are forgotten."""

    def __init__(self, view: LogView, forget_all: Callable[[tuple[bytes, ...]], None]) -> None:
        self._view = view
        self._forget_all = forget_all
        self._younger: dict[bytes, int] = {}  # by id of a sealed segment: a time before which it holds no command

    def load(self, key: CommandKey) -> CommandRecord | None:
        self._view.refresh()
        return self._view.retry_on_swap(lambda: self._load(key))

    def _load(self, key: CommandKey) -> CommandRecord | None:
        place = self._place(side.digest(key))
        if place is None:
            return None
        wanted = list(msgspec.structs.astuple(key))  # a frame may hold a thousand commands: only one is decoded
        found = [
            record for record in self._view.reader.side_at(*place) if record[0] == "command" and record[1] == wanted
        ]
        return side.decode(found[:1]).commands[0] if found else None

    def _place(self, digest: bytes) -> tuple[Segment, int] | None:
        """The segment and the offset of the frame that recorded a command last; None if it was forgotten since."""
        for item in reversed(self._view.segments):
            place = item.command(digest)
            if place is not None:
                return None if place == index.FORGOTTEN else (item, place[0])
        return None

    def is_held(self, digest: bytes, item: Segment, offset: int) -> bool:
        """Whether this frame recorded a command last, and the command was not forgotten since."""
        return self._place(digest) == (item, offset)

    def is_outdated(self, item: Segment, offset: int) -> bool:
        """Whether a command of this frame was forgotten or recorded again since."""
        records = self._records(item, offset)
        return not all(self.is_held(side.digest(record.key), item, offset) for record in records)

    def _records(self, item: Segment, offset: int) -> tuple[CommandRecord, ...]:
        return side.decode(self._view.reader.side_at(item, offset)).commands

    def touching(self, stream: str, seq: int) -> list[CommandKey]:
        self._view.refresh()
        return self._view.retry_on_swap(lambda: list(dict.fromkeys(self._touching(stream, seq))))

    def _touching(self, stream: str, seq: int) -> Iterator[CommandKey]:
        for item in self._view.segments:
            entry = item.stream(stream)
            near = [] if entry is None else entry.offsets(after=seq - 1, until=seq)
            far = [at for name, first, last, at in item.far_ranges() if name == stream and first <= seq <= last]
            for offset in sorted({*near, *far}):
                for record in self._records(item, offset):
                    held = self._place(side.digest(record.key)) == (item, offset)
                    if held and any(name == stream and first <= seq <= last for name, first, last in record.ranges):
                        yield record.key

    def forget(self, *, before: int, limit: int) -> int:
        self._view.refresh()
        with self._view.lock:
            old = self._view.retry_on_swap(lambda: tuple(islice(self._old(before), limit)))
            self._forget_all(old)
        return len(old)

    def _old(self, before: int) -> Iterator[bytes]:
        """The digests of commands that were recorded before a time, those of older segments first."""
        for item in self._view.segments:
            segment_id = item.header.segment_id
            if self._younger.get(segment_id, 0) >= before:
                continue
            old = [(place, digest) for digest, place in item.commands().items() if place[0] and place[1] < before]
            for (offset, _), digest in sorted(old):
                if self._place(digest) == (item, offset):
                    yield digest
            if item is not self._view.segments[-1]:
                self._younger[segment_id] = before
