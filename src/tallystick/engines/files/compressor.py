"""Compression of sealed segments, in a thread of its own, so that no append waits for it.

It starts when a segment is sealed, and when a log is opened that has an uncompressed one. Segments of less than
`bytes_min` are left to retention, which compresses by age. A failure leaves the segment as it was and is reported; the
next sealing or opening tries again. Closing the log waits for the segment that is being compressed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from tallystick import errors
from tallystick.engines.files import segment
from tallystick.engines.files.reclaim import Reclaimer
from tallystick.engines.files.rewrite import encoding_of
from tallystick.engines.files.segments import Segment

COMPRESS_BYTES_MIN = 64 << 10


class Compressor:
    """Compresses sealed segments. `require_writer` raises if nothing may be written."""

    def __init__(self, reclaimer: Reclaimer, bytes_min: int, require_writer: Callable[[], object]) -> None:
        self._reclaimer = reclaimer
        self._bytes_min = bytes_min
        self._require_writer = require_writer
        self._lock = threading.Lock()  # no other lock is taken while it is held
        self._wanted = False
        self._thread: threading.Thread | None = None
        self.problem = ""  # why something was not compressed

    def is_due(self, item: Segment) -> bool:
        """Whether a sealed segment is still to be compressed."""
        return encoding_of(item.header) == segment.PLAIN and item.end - item.header.size >= self._bytes_min

    def begin(self, sealed: Iterable[Segment]) -> None:
        """Compress in the background, if one of these segments is due."""
        if not any(map(self.is_due, sealed)):
            return
        with self._lock:
            self._wanted = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tally-compress", daemon=True)
                self._thread.start()

    def begin_one(self, sealed: Segment) -> None:
        """Compress a segment that was just sealed, if it is due."""
        self.begin([sealed])

    def wait(self) -> None:
        """Wait until there is nothing to do."""
        with self._lock:  # it is started under this lock
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._is_wanted():
            try:
                self._require_writer()
                self.problem = "; ".join(self._reclaimer.compress(self.is_due))
            except (errors.TallyError, OSError, MemoryError) as problem:
                self.problem = str(problem)

    def _is_wanted(self) -> bool:
        with self._lock:
            wanted, self._wanted = self._wanted and not self._reclaimer.is_ending, False
            if not wanted:
                self._thread = None
            return wanted
