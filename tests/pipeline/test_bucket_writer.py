"""What a task reports of its bucket: digests of blocks and ends of streams, as specified and as Spark computes them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tallystick.pipeline.archive import bucket_writer
from tallystick.pipeline.archive.bucket_writer import BlockDigests, StreamEnds
from tallystick.pipeline.archive.manifest import BLOCK_POSITIONS, Block
from tallystick.pipeline.source.log_query import LogQuery
from tallystick.pipeline.source.partitions import Range
from tallystick.pipeline.storage.directory import DirectoryStorage
from tests.pipeline import spark_digests


def _table(positions: list[int]) -> pa.Table:
    links = [hashlib.sha256(b"%d" % position).digest() for position in positions]
    streams = [f"order/{position % 3}" for position in positions]
    return pa.table({"position": positions, "stream": streams, "seq": positions, "link": pa.array(links, pa.binary())})


def _digest(positions: list[int]) -> str:
    lines = "".join(f"{position}\n{hashlib.sha256(b'%d' % position).hexdigest()}\n" for position in positions)
    return hashlib.sha256(lines.encode()).hexdigest()


def test_blocks_begin_and_end_where_the_format_says() -> None:
    """PIPE-02: SHA-256 over `position ‖ link` lines, block by block, for any batches of rows and with gaps."""
    first = [BLOCK_POSITIONS - 1, BLOCK_POSITIONS]
    second = [BLOCK_POSITIONS + 1, BLOCK_POSITIONS + 5, 2 * BLOCK_POSITIONS]
    third = [4 * BLOCK_POSITIONS + 1]
    blocks = BlockDigests()
    for part in (first + second[:1], second[1:], third):
        blocks.take(_table(part))
    assert blocks.close() == [Block(0, 2, _digest(first)), Block(1, 3, _digest(second)), Block(4, 1, _digest(third))]


def test_rows_out_of_order_are_not_written() -> None:
    """PIPE-02: a bucket ascends by position; rows that do not are refused."""
    for wrong in ([2, 1], [1, 1]):
        with pytest.raises(AssertionError):
            BlockDigests().take(_table(wrong))
    blocks = BlockDigests()
    blocks.take(_table([5]))
    with pytest.raises(AssertionError):
        blocks.take(_table([5, 6]))


def test_ends_are_the_last_of_each_stream() -> None:
    """PIPE-02: the end of a stream is its last event, in any batch."""
    ends = StreamEnds()
    for part in ([1, 2, 3, 4], [5, 7]):
        ends.take(_table(part))
    assert ends.table().select(["stream", "seq"]).to_pydict() == {
        "stream": ["order/0", "order/1", "order/2"],
        "seq": [3, 7, 5],
    }


def test_a_task_says_what_spark_would_say(
    spark: SparkSession, files_url: str, make_log: Callable[..., None], tmp_path: Path
) -> None:
    """PIPE-02, PIPE-03: the manifest has the same values as Spark computes from the file."""
    make_log(files_url, events=50)
    staged = bucket_writer.stage_range(
        LogQuery(url=files_url, until=45), Range(10, 45), DirectoryStorage(tmp_path), "0" * 16
    )
    assert staged.events is not None
    assert staged.heads is not None
    events = spark.read.parquet(str(tmp_path / staged.events.name))
    assert [spark_digests.as_block(row) for row in spark_digests.blocks(events).collect()] == staged.blocks
    wanted = [
        (row["stream"], row["seq"], bytes(row["link"]))
        for row in spark_digests.heads(events).orderBy("stream").collect()
    ]
    found = pq.read_table(tmp_path / staged.heads.name).to_pylist()
    assert [(row["stream"], row["seq"], row["link"]) for row in found] == wanted
