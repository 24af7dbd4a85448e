"""The columns of a table of events: those of an archived event, and three that are computed from them.

`kind` is the first part of the stream's name. `day` is the date of `time` (UTC), `bucket` is CRC-32 of the stream's
name modulo the number of buckets of the table; the table is partitioned by these two.
"""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallystick.pipeline.source.columns import COLUMNS, arrow_schema

BUCKETS = 16
BUCKETS_MAX = 4096
PARTITIONS = ("day", "bucket")
BARE = ("payload", "meta")  # these have no statistics: an erasure would not reach the bytes that a footer copies
_NS_A_DAY = 86_400 * 1_000_000_000

SCHEMA = pa.schema([*arrow_schema(COLUMNS), ("kind", pa.string()), ("day", pa.date32()), ("bucket", pa.int32())])
ROWS = pa.schema([("key", pa.string()), ("state", pa.string())])
"""The rows of a projection; a state is canonical JSON."""


def bucket_of(stream: str, buckets: int = BUCKETS) -> int:
    """The bucket that holds a stream."""
    return zlib.crc32(stream.encode()) % buckets


def with_partitions(events: pa.RecordBatch, buckets: int) -> pa.RecordBatch:
    """Events with the three computed columns."""
    names = events.column("stream").dictionary_encode()
    streams = names.dictionary.to_pylist()
    kinds = pa.array([stream.partition("/")[0] for stream in streams], pa.string())
    numbers = pa.array([bucket_of(stream, buckets) for stream in streams], pa.int32())
    times = events.column("time").to_numpy(zero_copy_only=False)
    days = pa.array(np.floor_divide(times, _NS_A_DAY).astype(np.int32), pa.int32()).cast(pa.date32())
    added = [pc.take(kinds, names.indices), days, pc.take(numbers, names.indices)]
    return pa.RecordBatch.from_arrays([*events.select(list(COLUMNS)).columns, *added], schema=SCHEMA)
