"""`spark.readStream.format("tallystick")`: offsets are positions, a batch goes at most to the safe head.

    {"position": N, "store": ID, "asks": TEXT, "link_position": M, "link": HEX}

Everything up to N is in the batches so far. Spark stores offsets in the query's checkpoint. The store's id and the link
of the last event at or before N prevent that a query continues over another log or another history. `asks` prevents
that it continues where a query for something else ended.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tallystick import Store, errors
from tallystick.pipeline.source import columns, partitions
from tallystick.pipeline.source.data_source import read_range
from tallystick.pipeline.source.log_query import LogQuery, describe, head_past, open_for, require_order
from tallystick.pipeline.spark.failures import mark_errors
from tallystick.store import cursors
from tallystick.store.checkpoints import Checkpoint

Offset = dict[str, Any]


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a log. It holds nothing open between calls: Spark does not say when it is done."""

    def __init__(self, query: LogQuery, names: tuple[str, ...], asks: str = "") -> None:
        self._query = query
        self._names = names
        self._asks = asks or describe(query.selection)
        self._target: int | None = None
        self._at: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The offset before the first event."""
        with mark_errors(), open_for(self._query) as store:
            require_order(store, what="follow")
            return self._offset(store, self._query.after)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit of a batch from the options. Spark takes one limit, so bytes are counted here if both are set."""
        rows, size = self._query.trigger_events, self._query.trigger_bytes
        if rows is not None:
            return ReadMaxRows(rows)
        return ReadAllAvailable() if size is None else ReadMaxBytes(size)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of a query that processes all events of now and stops."""
        with mark_errors(), open_for(self._query) as store:
            self._target = self._end(store.log.head())

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """The end of the next batch."""
        with mark_errors(), open_for(self._query) as store:
            self._require_same(start, store)
            end = self._end(store.log.head()) if self._target is None else self._target
            if isinstance(limit, ReadMaxRows):
                end = min(end, start["position"] + limit.max_rows)
            self._at = max(end, start["position"])
            if end <= start["position"]:
                return start
            if self._query.trigger_bytes is not None:
                self._at = end = partitions.end_by_bytes(store, self._query, start["position"], end)
            return start | self._offset(store, end)

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The head of the log, and `lag`: by how many positions the last planned batch is behind it."""
        with mark_errors(), open_for(self._query) as store:
            head = self._end(store.log.head())
            lag = {} if self._at is None else {"lag": max(head - self._at, 0)}
            return self._offset(store, head) | lag

    def partitions(self, start: Offset, end: Offset) -> list[Any]:
        """The ranges of a batch. Equal offsets give equal ranges, so a repeated batch is the same batch."""
        with mark_errors(), open_for(self._query) as store:
            self._require_same(start, store)
            self._require_same(end, store)
        size = self._query.partition_events
        return list(partitions.split(start["position"], end["position"], partition_events=size))

    def read(self, partition: Any) -> columns.Batches:
        """The events of one range; runs in a worker."""
        return read_range(self._query, self._names, partition)

    def commit(self, end: Offset) -> None:
        """Nothing: Spark calls this one batch late, and its own checkpoint decides."""

    def _end(self, head: int) -> int:
        return head if self._query.until is None else min(head, self._query.until)

    def _offset(self, store: Store, position: int) -> Offset:
        """The offset of a position, with the link of the last event up to there if one is near."""
        offset = {"position": position, "store": store.log.store_id.hex(), "asks": self._asks}
        event = cursors.last_event(store.log, position)
        return offset | {"link_position": event.position, "link": event.link.hex()} if event else offset

    def _require_same(self, offset: Offset, store: Store) -> None:
        """Refuse an offset of another log, of another history of this one, or of another query."""
        asks = offset.get("asks", self._asks)
        if asks != self._asks:
            raise errors.WrongQuery(made_for=asks, used_for=self._asks)
        position, link_position = offset["position"], offset.get("link_position", 0)
        if position <= self._query.after and not link_position:
            position = 0  # where the options say to begin, maybe past the head
        elif offset["store"] == store.log.store_id.hex():
            head_past(store, position)
        store_id, link = bytes.fromhex(offset["store"]), bytes.fromhex(offset.get("link", ""))
        with suppress(*[errors.Damaged] if self._query.over_holes else []):
            store.resume(Checkpoint("of the streaming query", store_id, position, link_position, link))
