"""Taking lines into a store: anyone's, which are appended as new events, or those of a whole export.

Lines may come from a file, from a pipe, or from a store directly; a store is opened when the first line is sound.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO

from tallystick import errors
from tallystick.event.model import Event
from tallystick.moving import entry, frame
from tallystick.moving.batches import Importer
from tallystick.moving.progress import Progress
from tallystick.moving.takeover import Takeover, parsed, why_not
from tallystick.store.store import Store

BATCH_BYTES_MAX = 16 << 20
LINE_BYTES_MAX = 4 << 20


def lines_of(source: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, each with its end; of one that is too long, so much that this can be told."""
    return iter(lambda: source.readline(LINE_BYTES_MAX + 1), b"")


class Intake:
    """One import. `open_store` is given the profile of the store that was exported, or None."""

    def __init__(
        self,
        open_store: Callable[[str | None], Store],
        *,
        batch: int = 1000,
        moved: Callable[[int], None] = lambda offset: None,
    ) -> None:
        self.progress = Progress()
        self.store: Store | None = None
        self._open_store = open_store
        self._batch = batch
        self._moved = moved
        self._offset = 0
        self._number = 0
        self._begun = 0
        self._lines: list[entry.Line] = []
        self._importer: Importer | None = None

    def run(self, source: Iterable[bytes]) -> Progress:
        """Take every line. At the first one that is refused it stops, and says what was stored before."""
        lines = self._numbered(source)
        first = next(lines, None)
        if first is not None and frame.is_one(first):
            self.progress.whole = True
            self._whole(first, lines)
        elif first is not None:
            self._plain(first)
            for text in lines:
                self._plain(text)
        self._append()
        return self.progress

    def _numbered(self, source: Iterable[bytes]) -> Iterator[bytes]:
        """Lines that are not empty, counted."""
        for text in source:
            self._number += 1
            self._offset += len(text)
            if len(text) > LINE_BYTES_MAX:
                with self._naming_lines():
                    raise errors.TooLarge(what="the line", size=len(text), unit="bytes or more", limit=LINE_BYTES_MAX)
            if not text.isspace():
                yield text

    @contextmanager
    def _naming_lines(self) -> Iterator[None]:
        """Name the line that is being looked at in what goes wrong, unless lines are named already."""
        try:
            yield
        except errors.TallyError as problem:
            if "where" in problem.values:
                raise
            raise self.progress.stopped(problem, first=self._number, last=self._number) from problem

    # --- anyone's lines --------------------------------------------------------------------------------------------

    def _plain(self, text: bytes) -> None:
        with self._naming_lines():
            if frame.is_one(text):
                raise errors.InvalidInput(reason="it belongs to a whole export, whose first line is missing")
            self._lines.append(entry.parse(text, self._number))
        if len(self._lines) >= self._batch or self._offset - self._begun >= BATCH_BYTES_MAX:
            self._append()

    def _append(self) -> None:
        if not self._lines:
            return
        if self._importer is None:
            self._importer = Importer(self._opened(None), self.progress)
        self._importer.take(self._lines, through=self._number)
        self._lines, self._begun = [], self._offset
        self._moved(self._offset)

    def _opened(self, profile: str | None) -> Store:
        if self.store is None:
            self.store = self._open_store(profile)
        return self.store

    # --- a whole export --------------------------------------------------------------------------------------------

    def _whole(self, first: bytes, lines: Iterator[bytes]) -> None:
        with self._naming_lines():
            taking = self._begin(first)
        for text in lines:  # what goes wrong in here is the source's own, and is no matter of a line
            with self._naming_lines():
                taking.line(text, self._number)
            self._moved(self._offset)
        with self._naming_lines():
            taking.require_end()

    def _begin(self, first: bytes) -> _Whole:
        begin = frame.parse(first)
        if not isinstance(begin, frame.Begin):
            raise errors.InvalidInput(reason="a whole export begins with another line: its beginning is missing")
        return _Whole(self, begin, hashlib.sha256(first))


class _Whole:
    """The lines of a whole export: taken over, or if the store has a life of its own, their events appended."""

    def __init__(self, intake: Intake, begin: frame.Begin, digest: hashlib._Hash) -> None:
        self._intake = intake
        self._begin = begin
        self._digest = digest
        self._cuts: list[frame.CutLine] = []
        self._gone: list[frame.PrunedLine | frame.ErasedLine] = []
        self._taking: Takeover | None = None
        self._is_open = self._is_ended = False
        self._events = 0

    def line(self, text: bytes, number: int) -> None:
        """The next line."""
        if self._is_ended:
            raise errors.InvalidInput(reason="it comes after the last line of a whole export")
        if not frame.is_one(text):
            self._event(text, number)
        else:
            found = frame.parse(text)
            if isinstance(found, frame.End):
                self._end(found, number)
                return
            self._other(found, number)
        self._digest.update(text)

    def _event(self, text: bytes, number: int) -> None:
        event = parsed(text)
        self._open(event)
        self._events += 1
        if self._taking is not None:
            self._taking.event(event, len(text), number)
        else:
            self._intake._plain(text)

    def _other(self, found: frame.FrameLine, number: int) -> None:
        if isinstance(found, frame.CutLine):
            if self._is_open:
                raise errors.InvalidInput(reason="cuts come before everything else")
            self._cuts.append(found)
        elif isinstance(
            found, frame.PrunedLine | frame.ErasedLine
        ):  # it may come before the first event, which decides
            self._gone.append(found)
            self._give_gone()
        elif isinstance(found, frame.Begin):
            raise errors.InvalidInput(reason="a second export begins here: import them one by one")
        elif isinstance(found, frame.SnapshotLine):
            self._snapshot(found, number)

    def _give_gone(self) -> None:
        if self._taking is not None:
            for line in self._gone:
                self._taking.gone(line)
            self._gone = []

    def _snapshot(self, found: frame.SnapshotLine, number: int) -> None:
        self._open(None)
        if self._taking is not None:
            self._taking.snapshot(found, number)
        else:
            self._intake.progress.snapshots_left_out += not found.more

    def _open(self, first: Event | None) -> None:
        """Decide what becomes of the export, before anything is written."""
        if self._is_open:
            return
        self._is_open = True
        begin, store = self._begin, self._intake._opened(self._begin.profile)
        reason = why_not(store, begin, first, self._cuts)
        if reason is None:
            batch, size = self._intake._batch, BATCH_BYTES_MAX
            self._taking = Takeover(store, begin, self._intake.progress, batch=batch, batch_bytes=size)
            for line in self._cuts:
                self._taking.cut(line)
            self._give_gone()
        elif begin.cuts or begin.erased:
            raise errors.MoveRefused(url=store.log.url, reason=reason)
        else:
            self._intake.progress.appended_because = reason

    def _end(self, end: frame.End, number: int) -> None:
        self._is_ended = True
        self._open(None)
        if self._taking is not None:
            self._taking.end(end, self._digest.hexdigest(), number)
            return
        self._intake._append()
        if end.events != self._events or end.sha256 != self._digest.hexdigest():
            raise errors.InvalidInput(reason="the lines before it are not those that were exported")

    def require_end(self) -> None:
        """The last line was there."""
        if self._is_ended:
            return
        if self._taking is not None:
            self._taking.flush(self._intake._number)
        raise errors.InvalidInput(reason="the export ends here, and its last line is missing: it was cut off")
