"""Checking the signatures of events in Arrow batches: the one check that Spark's own functions cannot do.

A signature is over the text that the link hashes, which Spark computes. `community/signatures.py` names the signer.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.community.signatures import why_not
from tallystick.pipeline.source.columns import Batches
from tallystick.pipeline.spark.failures import mark_errors
from tallystick.pipeline.verify.findings import is_community, signed_text

FINDINGS_DDL = "what string, reason string, position bigint, stream string, seq bigint"
_SCHEMA = pa.schema(
    [
        ("what", pa.string()),
        ("reason", pa.string()),
        ("position", pa.int64()),
        ("stream", pa.string()),
        ("seq", pa.int64()),
    ]
)
_COLUMNS = ("position", "stream", "seq", "signature", "is_community", "text")


def wrong_signatures(events: DataFrame) -> DataFrame:
    """Events of `findings.with_cuts` that lack a signature, or whose signature is not their author's."""
    community = is_community()
    asked = events.where(F.col("signature").isNotNull() | community)
    signed = asked.select(
        "position", "stream", "seq", "signature", community.alias("is_community"), signed_text().alias("text")
    )
    return signed.mapInArrow(_check, FINDINGS_DDL)


def _check(batches: Batches) -> Batches:
    with mark_errors():
        for batch in batches:
            rows = zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True)
            wrong = [
                (*found, position, stream, seq)
                for position, stream, seq, signature, in_community, text in rows
                if (found := why_not(stream, signature, text, in_community=in_community)) is not None
            ]
            if wrong:
                arrays = zip(zip(*wrong, strict=True), _SCHEMA, strict=True)
                yield pa.RecordBatch.from_arrays([pa.array(one, field.type) for one, field in arrays], schema=_SCHEMA)
