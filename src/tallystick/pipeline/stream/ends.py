"""The source behind `stream`: of each batch only where it ends. What is read is for the rows to say, which may be
behind the checkpoint or ahead of it.

A batch is due when the log has grown, and also when the rows are behind the checkpoint or a state was dropped: then the
offset keeps its position and counts in `again`, since Spark runs a batch only if the offset is another one.
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
    """Follows a log for one projection, and gives the end of each batch."""

    def __init__(self, query: LogQuery, projection: str) -> None:
        super().__init__(query, (), f"projection {projection}")
        self._projection = projection

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """How far the next batch goes; `start` once more where the rows have not got as far as that."""
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
        """One, which knows where the batch ends."""
        super().partitions(start, end)
        return [Range(start["position"], end["position"])]

    def read(self, partition: Any) -> Batches:
        """The end of the batch; runs in a worker."""
        yield pa.RecordBatch.from_pydict({"until": [partition.until]}, schema=_SCHEMA)


class EndsSource(DataSource):
    """What Spark knows as the format `tallystick-ends`. Its option `projection` names whose rows are kept current."""

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
