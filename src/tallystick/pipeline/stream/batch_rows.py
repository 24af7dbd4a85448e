"""A task of `stream`: fold the events of some keys onto their rows, and fill a batch with the results.

The events come sorted by key, one Arrow page at a time. A key whose events continue on the next page is kept as a row.
So a task holds one page of events and the states of some keys. The driver gets the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa

import tallystick
from tallystick import errors
from tallystick.event.catalog import Catalog
from tallystick.event.model import Event
from tallystick.pipeline.fold.keys import key_name
from tallystick.pipeline.source import columns
from tallystick.pipeline.source.columns import Batches
from tallystick.pipeline.spark.failures import mark_errors
from tallystick.projections.row_folder import RowFolder
from tallystick.store.store import Store
from tallystick.store.views import Place, Seen, ViewRow

COUNT_DDL = "rows bigint"
KEYS_MAX = 1000  # keys whose states are in memory together
STATES_BYTES = 16 << 20  # fewer keys if their states are larger than this together
BUSY_TRIES = 60  # tasks take turns at a database with one writer

_seen: dict[str, Seen] = {}  # per log: every task opens the store, and must not count all rows again
Keyed = tuple[str | None, Event]


class ProjectionJob(msgspec.Struct, frozen=True):
    """A projection and its log, for the driver and the workers."""

    url: str
    projection: Any
    catalog: Catalog

    def open(self, *, for_rows: bool = False) -> Store:
        """Open the store; `for_rows`: to write rows. A file log keeps rows in another file, so they need no lease."""
        readonly = not for_rows or self.url.startswith("files:")
        store = tallystick.open(self.url, readonly=readonly, create=False, catalog=self.catalog)
        store.log.views.seen = _seen.setdefault(self.url, set())
        return store


class Batch(msgspec.Struct, frozen=True):
    """One batch: its number, the place of the rows before it, and their position after it."""

    number: bytes
    place: Place
    until: int


def fill_batch(store: Store, batch: Batch, rows: Sequence[ViewRow]) -> None:
    """Add rows to the batch. If the database takes one writer at a time, wait for the other tasks."""
    for left in reversed(range(BUSY_TRIES)):
        try:
            store.log.views.fill_batch(batch.place, batch.number, rows)
            return
        except errors.Busy:
            if not left:
                raise


def refold(job: ProjectionJob, batch: Batch, keys: Sequence[str]) -> int:
    """Fill the batch with the rows of keys whose states were dropped; their number, or 0 if the rows have moved."""
    with suppress(errors.ViewMoved), job.open(for_rows=True) as store:
        rows = RowFolder(store, job.projection).refold(keys, until=batch.until)
        fill_batch(store, batch, rows)
        return len(rows)
    return 0


def filler_task(job: ProjectionJob, batch: Batch) -> Callable[[Batches], Batches]:
    """The task: reads events sorted by key, and returns the number of rows that they changed.

    If the rows have moved, another runner was faster; the driver notices it too when it writes the batch.
    """

    def run(batches: Batches) -> Batches:
        with mark_errors(), suppress(errors.ViewMoved), ExitStack() as stack:
            filler: Filler | None = None
            for page in batches:
                if page.num_rows:
                    filler = filler or Filler(stack.enter_context(job.open(for_rows=True)), job, batch)
                    filler.take(page)
            if filler is not None:
                yield pa.RecordBatch.from_pydict({"rows": [filler.end()]})

    return run


class Filler:
    """Folds page after page, and fills the batch."""

    def __init__(self, store: Store, job: ProjectionJob, batch: Batch) -> None:
        self._store = store
        self._job = job
        self._batch = batch
        self._folder = RowFolder(store, job.projection)
        self._name = key_name(job.projection)
        self._keys = KEYS_MAX
        self._carried: ViewRow | None = None  # the row of the last key so far, which may have more events
        self._settled: str | None = None  # a key that was folded again, with every event of this batch
        self._count = 0

    def take(self, page: pa.RecordBatch) -> None:
        """Fold a page of events."""
        keys = page.column(self._name).to_pylist()
        events = self._job.catalog.upcast(list(columns.to_events(page)))
        some: list[list[Keyed]] = []
        for _, its in groupby(zip(keys, events, strict=True), key=itemgetter(0)):
            some.append(list(its))
            if len(some) >= self._keys:
                self._fold(some)
                some = []
        if some:
            self._fold(some)

    def _fold(self, groups: list[list[Keyed]]) -> None:
        events = [event for its in groups for key, event in its if self._settled is None or key != self._settled]
        folded = self._folder.fold(events, load=self._load, until=self._batch.until)
        last = groups[-1][-1][0]
        rows = [row for row in folded.rows if row.key != last]
        if self._carried is not None and self._carried.key not in (last, *(row.key for row in rows)):
            rows.append(self._carried)
        self._carried = next((row for row in folded.rows if row.key == last), self._carried)
        self._settled = last if last in folded.refolded or last == self._settled else None
        self._put(rows)

    def _load(self, keys: Sequence[str]) -> list[ViewRow]:
        """The rows of keys, with the changes that this task has not written yet."""
        own = [row for row in [self._carried] if row is not None and row.key in keys]
        place, others = self._batch.place, [key for key in keys if not own or key != own[0].key]
        if not others:
            return own
        return own + self._store.log.views.rows(place.projection, epoch=place.epoch, keys=others).rows

    def _put(self, rows: list[ViewRow]) -> None:
        if not rows:
            return
        fill_batch(self._store, self._batch, rows)
        self._count += len(rows)
        size = sum(len(row.state or b"") for row in rows) // len(rows)
        self._keys = max(min(STATES_BYTES // max(size, 1), KEYS_MAX), 1)

    def end(self) -> int:
        """Write the last row; the number of rows."""
        self._put([row for row in [self._carried] if row is not None])
        return self._count
