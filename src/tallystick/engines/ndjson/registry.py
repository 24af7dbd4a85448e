"""`streams.ndjson`: the streams, and the number that begins the positions of each.

    {"number":1,"stream":"run/a","whole":…}

A stream gets its number with its first append and keeps it. A directory with a log but no number (this file was lost,
or the run was copied here) gets the next one when a writer opens the store. Until then each reader lends it one.
"""

from __future__ import annotations

import bisect
import threading

from tallystick.engines.ndjson.line_file import LineFile
from tallystick.store.filesystem import FileSystem

NAME = "streams.ndjson"
LENT = 1 << 30


class Registry:
    """Streams and their numbers. Add new ones under the lock of the store."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._file = LineFile(files, directory, NAME)
        self._mutex = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._streams: dict[int, str] = {}
        self._order: list[int] = []

    def refresh(self) -> None:
        """Read the streams that others have added."""
        with self._mutex:
            for content in self._file.refresh():
                self._take(content["stream"], content["number"])

    def _take(self, stream: str, number: int) -> None:
        if stream not in self._numbers and number not in self._streams:
            self._numbers[stream] = number
            self._streams[number] = stream
            bisect.insort(self._order, number)

    def add(self, stream: str) -> int:
        """Give a stream its number, durably."""
        with self._mutex:
            number = self._order[-1] + 1 if self._order else 1
            self._file.append({"number": number, "stream": stream})
            self._take(stream, number)
            return number

    def lend(self, stream: str) -> None:
        """Number a stream for this handle only, far from the numbers in the file. For handles that only read."""
        with self._mutex:
            self._take(stream, max(LENT, self._order[-1] + 1 if self._order else 0))

    def number(self, stream: str) -> int | None:
        """The number of a stream; None if it does not exist."""
        return self._numbers.get(stream)

    def stream(self, number: int) -> str | None:
        """The stream of a number."""
        return self._streams.get(number)

    def numbers(self, *, first: int = 0) -> list[int]:
        """The numbers from `first` on, ascending."""
        with self._mutex:
            return self._order[bisect.bisect_left(self._order, first) :]

    def names(self) -> list[str]:
        """Every stream, in order of name."""
        return sorted(self._numbers)
