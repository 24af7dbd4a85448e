"""`spark.readStream.format("tallystick")`: offsets are positions, a batch goes at most to the safe head.

An offset is `{"position": N}`: everything up to N is in the batches so far. Spark keeps it in the query's checkpoint,
with the store's id, so that a checkpoint is not gone on with over another log.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tallystick import Store, errors
from tallystick.pipeline import columns, partitions
from tallystick.pipeline.failures import told
from tallystick.pipeline.question import Question, head_past, open_asked, require_order
from tallystick.pipeline.source import read_range


class FollowingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a log. Holds nothing open between calls: Spark never says when it is done."""

    def __init__(self, question: Question, names: tuple[str, ...]) -> None:
        self._question = question
        self._names = names
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Before the first event that is wanted."""
        with told(), open_asked(self._question) as store:
            require_order(store, what="follow")
            return self._offset(store.log.store_id, self._question.after)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """At most so many positions a batch, if the option says so."""
        limit = self._question.trigger_events
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix where a query ends that processes what is there and stops."""
        with told(), open_asked(self._question) as store:
            self._target = self._end(store.log.head())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """How far the next batch goes."""
        with told(), open_asked(self._question) as store:
            store_id = store.log.store_id
            self._require_same(start, store)
            end = self._end(store.log.head()) if self._target is None else self._target
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["position"] + limit.max_rows)
        return self._offset(store_id, max(end, start["position"]))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The head of the log, for whoever wants to know the lag."""
        with told(), open_asked(self._question) as store:
            return self._offset(store.log.store_id, self._end(store.log.head()))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        """The ranges of a batch; the same for the same offsets, so that a repeated batch is the same batch."""
        size = self._question.partition_events
        return list(partitions.split(start["position"], end["position"], partition_events=size))

    def read(self, partition: Any) -> columns.Batches:
        """The events of one range; runs in a worker."""
        return read_range(self._question, self._names, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to give back: Spark calls this a batch late, and its own checkpoint is what counts."""

    def _end(self, head: int) -> int:
        return head if self._question.until is None else min(head, self._question.until)

    def _offset(self, store_id: bytes, position: int) -> dict[str, Any]:
        return {"position": position, "store": store_id.hex()}

    def _require_same(self, start: dict[str, Any], store: Store) -> None:
        position, is_same = start["position"], start["store"] == store.log.store_id.hex()
        head = head_past(store, position) if is_same and position > self._question.after else store.log.head()
        if not is_same or position > max(head, self._question.after):
            what = f"store {start['store']} at position {position}"
            raise errors.WrongStore(name="streaming query", reason=f"it was at {what}, this log ends at {head}")
