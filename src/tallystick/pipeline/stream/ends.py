"""The source of the job `stream`: for each batch only its end. Where to read from is decided by the rows, which may be
behind the checkpoint or ahead of it.

A batch is due when the log has grown. It is also due when the rows are behind the checkpoint, or a state was dropped:
then the offset keeps its position and increments `again`, since Spark runs a batch only if the offset changes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tallystick.pipeline.source.columns import Batches
from tallystick.pipeline.source.log_query import LogQuery, open_log, parse
from tallystick.pipeline.source.partitions import Range
from tallystick.pipeline.source.stream_reader import LogStreamReader, Offset
from tallystick.pipeline.spark.failures import mark_errors

NAME = "tallystick-ends"
DDL = "until bigint"
_SCHEMA = pa.schema([("until", pa.int64())])


class EndsReader(LogStreamReader):
    """Follows a log for one projection, and returns the end of each batch."""

    def __init__(self, query: LogQuery, projection: str) -> None:
        super().__init__(query, (), f"projection {projection}")
        self._projection = projection

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """The end of the next batch; `start` with a higher `again` if the rows have not reached it."""
        end = super().latestOffset(start, limit)
        if end == start and self._rows_are_behind(start["position"]):
            return start | {"again": start.get("again", 0) + 1}
        return end

    def _rows_are_behind(self, position: int) -> bool:
        with mark_errors(), open_log(self._query.url) as store:
            views = store.log.views
            place = views.place(self._projection)
            return (
                place is None
                or place.position < position
                or bool(views.dropped(place.projection, place.epoch, limit=1))
            )

    def partitions(self, start: Offset, end: Offset) -> list[Any]:
        """One partition, which has the end of the batch."""
        super().partitions(start, end)
        return [Range(start["position"], end["position"])]

    def read(self, partition: Any) -> Batches:
        """The end of the batch; runs in a worker."""
        yield pa.RecordBatch.from_pydict({"until": [partition.until]}, schema=_SCHEMA)


class EndsSource(DataSource):
    """The format `tallystick-ends` of Spark. Its option `projection` names the projection to keep current."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> str:
        """The end of a batch."""
        return DDL

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        """A reader for one projection."""
        with mark_errors():
            given = dict(self.options)
            projection = given.pop("projection")
            return EndsReader(parse(given), projection)
