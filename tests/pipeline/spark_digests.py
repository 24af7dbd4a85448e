"""What a manifest says of a bucket, computed by Spark itself: digests of blocks, and the ends of streams."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark
from pyspark.sql.types import Row

from tallystick.pipeline.archive.manifest import BLOCK_POSITIONS, Block
from tallystick.pipeline.verify.findings import hex_of


def blocks(events: DataFrame, *by: str) -> DataFrame:
    """(block, rows, digest) of every block of positions, in each group of `by`, from `position` and `link` alone."""
    line = F.concat_ws("\n", F.col("position").cast("string"), hex_of("link"), F.lit(""))
    numbered = events.select(
        *by,
        ((F.col("position") - 1) / BLOCK_POSITIONS).cast("bigint").alias("block"),
        F.struct("position", line.alias("line")).alias("entry"),
    )
    collected = numbered.groupBy(*by, "block").agg(F.sort_array(F.collect_list("entry")).alias("entries"))
    return collected.select(
        *by,
        "block",
        F.size("entries").alias("rows"),
        F.sha2(F.array_join(F.col("entries.line"), ""), 256).alias("digest"),
    )


def as_block(row: Row) -> Block:
    """A row of `blocks`."""
    return Block(row["block"], row["rows"], row["digest"])


def heads(events: DataFrame, *by: str) -> DataFrame:
    """(stream, seq, link): the last event of each stream, in each group of `by`."""
    last = F.max(F.struct("seq", "link")).alias("last")
    return events.groupBy(*by, "stream").agg(last).select(*by, "stream", "last.seq", "last.link")
