"""`verify` of a table: its rows by themselves, and against the archive and the log, one window of positions at a time.

Damage in the table does not raise: every finding is reported. Files are read whole, by their names, so that no
statistics and no footer can hide a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tallystick import errors
from tallystick.pipeline.archive.history import erased_positions
from tallystick.pipeline.lake import history
from tallystick.pipeline.lake.chains import Chains
from tallystick.pipeline.lake.comparison import TableComparison
from tallystick.pipeline.lake.events import rows_of
from tallystick.pipeline.lake.schema import SCHEMA
from tallystick.pipeline.lake.table import Table, TableMark, read_mark, require_content, table_at
from tallystick.pipeline.lake.table_files import UNREADABLE, ReadableFile, look_at, rows_between
from tallystick.pipeline.source.log_query import open_log
from tallystick.pipeline.source.partitions import Range
from tallystick.pipeline.spark.progress import Show
from tallystick.pipeline.storage.port import Storage
from tallystick.pipeline.whole_log import WholeLog, whole_log
from tallystick.store import reasons
from tallystick.store.events import Problem

_ENVELOPE = ("position", "stream", "seq")
PROBLEMS_MAX = 10_000
WINDOW = 100_000


class TableVerifyResult(msgspec.Struct, kw_only=True):
    """What was checked and what was found. `ok` is the verdict; `unsure` lists what could not be checked."""

    format: str
    events: int = 0
    streams: int = 0
    erased: int = 0
    files: int = 0
    through: int = 0
    head: int = 0
    problems: list[Problem] = []
    truncated: bool = False
    unsure: list[str] = []

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def add(self, problems: Iterable[Problem]) -> None:
        """Add problems, up to `PROBLEMS_MAX`."""
        room = PROBLEMS_MAX - len(self.problems)
        found = list(islice(problems, room + 1))
        self.truncated = self.truncated or len(found) > room
        self.problems += found[:room]


def verify(
    url: str,
    destination: str | Path | Storage,
    archive: str | Path | Storage | None = None,
    *,
    show: Show | None = None,
) -> TableVerifyResult:
    """Check every row of a table, and that it has every event up to its mark, once."""
    table = table_at(destination)
    with open_log(url) as store:
        mark = read_mark(table)
        require_content(table, mark, projection="")
        history.require_same_log(table, mark, store)
        source = whole_log(url, archive, over_pruned=True, over_holes=True, seen=mark.through)
        later = set(erased_positions(store, after=mark.through, until=source.until, over_holes=True))
    found = TableVerifyResult(format=table.format, through=mark.through, head=source.until)
    _Check(table, mark, source, later, found).run(show)
    return found


class _Check:
    """One run over all windows."""

    def __init__(
        self, table: Table, mark: TableMark, source: WholeLog, later: set[int], found: TableVerifyResult
    ) -> None:
        self._table, self._mark, self._source = table, mark, source
        self._later = later  # positions of payloads that were erased since
        self._found = found
        self._chains = Chains()
        self._comparison = TableComparison(later)

    def run(self, show: Show | None) -> None:
        """Check the files, then the rows, then the table as a whole."""
        known = list(self._files())
        windows = list(_windows(self._source, self._mark.through))
        self._found.add(_rows_beyond(self._table.storage, known, self._mark.through))
        for number, window in enumerate(windows):
            rows = self._rows(known, window)
            self._found.add(self._chains.take(_rows_in_streams(rows)))
            self._found.add(self._compared(window, rows))
            if show is not None:
                show(number + 1, len(windows))
        self._found.add(self._chains.close())
        self._found.add(self._payloads())
        with open_log(self._source.url) as store:
            after, until = self._source.through, self._mark.through
            self._found.add(self._comparison.unanchored(store, after=after, until=until))
        self._summarize()

    def _files(self) -> Iterator[ReadableFile]:
        if (hidden := self._table.hidden()) is not None:
            self._found.add([Problem("table", f"rows were removed without changing a file: {hidden}")])
        for file in self._table.files():
            self._found.files += 1
            try:
                known, wrong = look_at(self._table.storage, file)
            except UNREADABLE as problem:
                reason = "it is missing" if isinstance(problem, FileNotFoundError) else _first_line(problem)
                self._found.add([Problem("file", f"{file.name}: {reason}")])
                continue
            self._found.add(Problem("file", f"{file.name}: {reason}") for reason in wrong)
            yield known

    def _rows(self, known: list[ReadableFile], window: Range) -> pa.Table:
        """The rows of the table in a window, in order of position."""
        parts: list[pa.Table] = [SCHEMA.empty_table()]
        for one in known:
            try:
                parts += rows_between(self._table.storage, one, window.after + 1, window.until)
            except UNREADABLE as problem:
                self._found.add([Problem("file", f"{one.file.name}: {_first_line(problem)}")])
        return pa.concat_tables(parts).sort_by("position").combine_chunks()

    def _compared(self, window: Range, rows: pa.Table) -> Iterator[Problem]:
        try:
            batches = list(rows_of(self._source, window, self._mark.buckets, over_pruned=True))
        except errors.TallyError as problem:
            reason = f"log and archive cannot be read from position {window.after + 1} on: {problem.message}"
            yield Problem("log", reason, window.after + 1)
            return
        expected = pa.Table.from_batches(batches, SCHEMA).combine_chunks()
        with open_log(self._source.url) as store:
            yield from self._comparison.compare(store, expected, rows, is_archived=self._is_archived(window))

    def _is_archived(self, window: Range) -> bool:
        """Whether the archive has every event that a window ever had."""
        manifest = self._source.manifest
        bucket = manifest.bucket_of(window.until) if manifest is not None else None
        return bucket is not None and not bucket.lacking

    def _payloads(self) -> Iterator[Problem]:
        """Missing payloads that no control fact names, neither in the table nor after its mark."""
        erased = self._chains.erased | self._later
        for position, (stream, seq) in sorted(self._chains.gone.items()):
            if position not in erased:
                yield reasons.ERASURE_NOT_CLAIMED.of(stream, seq, position=position)

    def _summarize(self) -> None:
        """Fill in the counts, and what could not be checked."""
        found = self._found
        found.events, found.streams, found.erased = self._chains.events, self._chains.streams, len(self._chains.gone)
        if still := self._comparison.not_reached:
            found.unsure.append(f"{still} payloads were erased since the last run, and the table still holds them")
        if left := self._table.left():
            found.unsure.append(f"{left} data files of old versions and killed runs may hold payloads that were erased")
        if pruned := self._comparison.uncompared:
            text = f"{pruned} events were pruned from the log: without its archive only their chains were checked"
            found.unsure.append(text)


def _windows(source: WholeLog, through: int) -> Iterator[Range]:
    """Ranges of positions up to the mark. They follow the archive's buckets, so that no file is read twice."""
    after = 0
    for bucket in source.manifest.buckets if source.manifest is not None else ():
        if after < through:
            yield Range(after, min(bucket.last, through))
        after = bucket.last
    for begin in range(after, through, WINDOW):
        yield Range(begin, min(begin + WINDOW, through))


def _rows_beyond(storage: Storage, known: list[ReadableFile], through: int) -> Iterator[Problem]:
    """Rows before the first position or after the mark."""
    for one in known:
        for first, last in ((-(1 << 63), 0), (through + 1, (1 << 63) - 1)):
            for rows in rows_between(storage, one, first, last):
                for position, stream, seq in zip(*(rows[name].to_pylist() for name in _ENVELOPE), strict=True):
                    reason = f"the table ends at position {through}, but has this row"
                    yield Problem("row", reason, position, stream or "", seq or 0)


def _rows_in_streams(rows: pa.Table) -> pa.Table:
    """The rows with a stream and a seq. Others have no chain; the comparison reports them."""
    return rows.filter(pc.and_(pc.is_valid(rows["stream"]), pc.is_valid(rows["seq"])))


def _first_line(problem: Exception) -> str:
    return str(problem).partition("\n")[0]
