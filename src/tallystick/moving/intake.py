"""Taking lines into a store: plain lines, which are appended as new events, or those of a whole export."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tallystick import errors
from tallystick.event.line import parse_new
from tallystick.event.model import Event
from tallystick.moving import frame
from tallystick.moving.batches import Importer, ImportLine
from tallystick.moving.export import export
from tallystick.moving.progress import Progress
from tallystick.moving.takeover import Takeover, stored_event, why_not
from tallystick.store.store import Store

BATCH_BYTES_MAX = 16 << 20
LINE_BYTES_MAX = 4 << 20

Target: TypeAlias = "Store | Callable[[str | None], Store]"
"""A store, or a function that opens one. The function gets the profile of the exported store, or None for plain lines,
and is called once the first line is sound: for a file that is bad from the start no store is created."""


def import_lines(
    target: Target,
    lines: Iterable[bytes],
    *,
    batch: int = 1000,
    progress: Callable[[Progress], None] = lambda done: None,
) -> Progress:
    """Import the lines of a plain or a whole export, or lines that you wrote yourself, and return what was done.

    Each batch is one commit. At the first line that is refused, `ImportRefused` names it, and nothing of its batch is
    written. It is safe to import again: a whole export continues where it stopped, and plain lines with ids that are
    already stored are skipped. A whole export that does not end with its last line is refused when it ends.

    - `lines`: lines, each with its end, or a file that is open for reading bytes.
    - `progress`: called as the import proceeds, each time with the same object.
    """
    return _Import(target, batch, progress).run(_bounded(lines) if isinstance(lines, io.IOBase) else lines)


def copy(
    source: Store,
    target: Target,
    *,
    batch: int = 1000,
    snapshots: bool = True,
    progress: Callable[[Progress], None] = lambda done: None,
) -> Progress:
    """Import a whole export of one store into another. Run it again to continue it, or to add what was appended since.

    The target must be empty or hold the beginning of the same log. Otherwise only the events are appended, as new ones,
    and if something was pruned or erased, the copy is refused.
    """
    return import_lines(target, export(source, whole=True, snapshots=snapshots), batch=batch, progress=progress)


def _bounded(file: io.IOBase) -> Iterator[bytes]:
    """The lines of a file. Of a line that is too long, only as much as is needed to see that."""
    return iter(lambda: file.readline(LINE_BYTES_MAX + 1), b"")


class _Import:
    """One import."""

    def __init__(self, target: Target, batch: int, report: Callable[[Progress], None]) -> None:
        self.progress = Progress()
        self.batch = batch
        self._target = target
        self._store: Store | None = None
        self._report = report
        self._number = 0
        self._begun = 0
        self._lines: list[ImportLine] = []
        self._importer: Importer | None = None

    def run(self, source: Iterable[bytes]) -> Progress:
        lines = self._numbered(source)
        first = next(lines, None)
        if first is not None and frame.is_frame_line(first):
            self.progress.whole = True
            self._whole(first, lines)
        elif first is not None:
            self.plain(first)
            for text in lines:
                self.plain(text)
        self.append()
        self.open(None)
        return self.progress

    def _numbered(self, source: Iterable[bytes]) -> Iterator[bytes]:
        """Lines that are not empty, counted."""
        for text in source:
            self._number += 1
            self.progress.bytes += len(text)
            if len(text) > LINE_BYTES_MAX:
                with self._naming_lines():
                    raise errors.TooLarge(what="the line", size=len(text), unit="bytes or more", limit=LINE_BYTES_MAX)
            if not text.isspace():
                yield text

    @contextmanager
    def _naming_lines(self) -> Iterator[None]:
        """Add the number of the current line to an error, unless the error names lines already."""
        try:
            yield
        except errors.TallyError as problem:
            if "where" in problem.values:
                raise
            raise self.progress.stopped(problem, first=self._number, last=self._number) from problem

    def open(self, profile: str | None) -> Store:
        """The store, opened at the first call."""
        if self._store is None:
            self._store = self._target if isinstance(self._target, Store) else self._target(profile)
        return self._store

    # --- plain lines -----------------------------------------------------------------------------------------------

    def plain(self, text: bytes) -> None:
        """Take a plain line; a full batch is appended."""
        with self._naming_lines():
            if frame.is_frame_line(text):
                raise errors.InvalidInput(reason="it belongs to a whole export, whose first line is missing")
            self._lines.append(ImportLine.of(parse_new(text), self._number))
        if len(self._lines) >= self.batch or self.progress.bytes - self._begun >= BATCH_BYTES_MAX:
            self.append()

    def append(self) -> None:
        """Append the lines that were taken."""
        if not self._lines:
            return
        if self._importer is None:
            self._importer = Importer(self.open(None), self.progress)
        self._importer.take(self._lines, through=self._number)
        self._lines, self._begun = [], self.progress.bytes
        self._report(self.progress)

    # --- a whole export --------------------------------------------------------------------------------------------

    def _whole(self, first: bytes, lines: Iterator[bytes]) -> None:
        with self._naming_lines():
            taking = self._begin(first)
        for text in lines:  # an error in here is one of the source, and names no line
            with self._naming_lines():
                taking.line(text, self._number)
            self._report(self.progress)
        with self._naming_lines():
            taking.require_end(self._number)

    def _begin(self, first: bytes) -> _WholeImport:
        begin = frame.parse(first)
        if not isinstance(begin, frame.Begin):
            raise errors.InvalidInput(reason="it is not the first line of a whole export: its beginning is missing")
        return _WholeImport(self, begin, hashlib.sha256(first))


class _WholeImport:
    """A whole export on its way in. It is taken over, or if the store has other events, its events are appended."""

    def __init__(self, imported: _Import, begin: frame.Begin, digest: hashlib._Hash) -> None:
        self._import = imported
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
        if not frame.is_frame_line(text):
            self._event(text, number)
        else:
            found = frame.parse(text)
            if isinstance(found, frame.End):
                self._end(found, number)
                return
            self._other(found, number)
        self._digest.update(text)

    def _event(self, text: bytes, number: int) -> None:
        event = stored_event(text)
        self._open(event)
        self._events += 1
        if self._taking is not None:
            self._taking.event(event, len(text), number)
        else:
            self._import.plain(text)

    def _other(self, found: frame.FrameLine, number: int) -> None:
        if isinstance(found, frame.CutLine):
            if self._is_open:
                raise errors.InvalidInput(reason="a cut must come before everything else")
            self._cuts.append(found)
        elif isinstance(found, frame.PrunedLine | frame.ErasedLine):
            self._gone.append(found)  # it may come before the first event, which decides what happens
            self._give_gone()
        elif isinstance(found, frame.Begin):
            raise errors.InvalidInput(reason="a second export begins here: import one at a time")
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
            self._import.progress.snapshots_left_out += not found.more

    def _open(self, first: Event | None) -> None:
        """Decide what happens with the export, before anything is written."""
        if self._is_open:
            return
        self._is_open = True
        begin, store = self._begin, self._import.open(self._begin.profile)
        reason = why_not(store, begin, first, self._cuts)
        if reason is None:
            batch, size = self._import.batch, BATCH_BYTES_MAX
            self._taking = Takeover(store, begin, self._import.progress, batch=batch, batch_bytes=size)
            for line in self._cuts:
                self._taking.cut(line)
            self._give_gone()
        elif begin.cuts or begin.erased:
            raise errors.MoveRefused(url=store.log.url, reason=reason)
        else:
            self._import.progress.appended_because = reason

    def _end(self, end: frame.End, number: int) -> None:
        self._is_ended = True
        self._open(None)
        if self._taking is not None:
            self._taking.end(end, self._digest.hexdigest(), number)
            return
        self._import.append()
        if end.events != self._events or end.sha256 != self._digest.hexdigest():
            raise errors.InvalidInput(reason="the lines before it are not the lines that were exported")

    def require_end(self, number: int) -> None:
        """Refuse an export without its last line; everything before is kept."""
        if self._is_ended:
            return
        if self._taking is not None:
            self._taking.flush(number)
        raise errors.InvalidInput(reason="the export ends here without its last line: it was cut off")
