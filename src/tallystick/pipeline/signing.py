"""Signatures of events, checked in Arrow batches: the one thing of verification that Spark's own functions cannot do.

An event of a community is signed by the key that its stream is named by; elsewhere a signature is optional, and the
author in its meta says whose it is. What is signed is the text that the link hashes, which Spark makes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.community import identity
from tallystick.pipeline.failures import told
from tallystick.pipeline.findings import is_community, signed_text

FINDINGS_DDL = "what string, reason string, position bigint, stream string, seq bigint"
SIGNATURE, NOBODYS = "signature", "nobody's"
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

Batches = Iterator[pa.RecordBatch]


class _Signed(msgspec.Struct):
    author: str = ""


def wrong_signatures(beside: DataFrame) -> DataFrame:
    """Events of `findings.chained` that lack a signature, or whose signature is not that of their author."""
    community = is_community()
    asked = beside.where(F.col("signature").isNotNull() | community)
    told_ = asked.select(
        "position", "stream", "seq", "signature", community.alias("is_community"), signed_text().alias("text")
    )
    return told_.mapInArrow(_check, FINDINGS_DDL)


def _check(batches: Batches) -> Batches:
    with told():
        for batch in batches:
            rows = zip(
                *(batch.column(batch.schema.get_field_index(name)).to_pylist() for name in _COLUMNS), strict=True
            )
            wrong = [
                (*found, position, stream, seq)
                for position, stream, seq, signature, in_community, text in rows
                if (found := why_not(stream, signature, text, in_community=in_community)) is not None
            ]
            if wrong:
                arrays = zip(zip(*wrong, strict=True), _SCHEMA, strict=True)
                yield pa.RecordBatch.from_arrays([pa.array(one, field.type) for one, field in arrays], schema=_SCHEMA)


def why_not(stream: str, signature: bytes | None, text: bytes | None, *, in_community: bool) -> tuple[str, str] | None:
    """What is wrong with the signature of one event; None if it is its author's."""
    if signature is None:
        return SIGNATURE, "it is not signed, as every event of a community is"
    author = stream.partition("/")[2] if in_community else _author(text)
    if not identity.is_node_id(author):
        return (SIGNATURE, "its author is not a node id") if in_community else (NOBODYS, "nothing says by whom it is")
    if text is None or not identity.verify(identity.public_key(author), text, signature):
        return SIGNATURE, "the signature is not that of its author over this event"
    return None


def _author(text: bytes | None) -> str:
    """Who is named by the meta, the last line but one of what is signed."""
    try:
        return msgspec.json.decode((text or b"").rsplit(b"\n", 2)[-2], type=_Signed).author
    except (msgspec.DecodeError, IndexError):
        return ""
