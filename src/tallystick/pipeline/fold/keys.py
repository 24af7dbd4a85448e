"""The key of each event as a column, computed by the JVM where the result is provably the same, otherwise by Python.

It is the same if the key is the stream or its kind. It is also the same for a field of the payload if the path has
plain names and no upcaster applies: then the projection sees the stored payload.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.event.catalog import Catalog
from tallystick.pipeline.source import columns
from tallystick.pipeline.source.columns import Batches
from tallystick.pipeline.spark.failures import mark_errors
from tallystick.projections import model
from tallystick.store.views import BY_KIND, BY_PAYLOAD, BY_STREAM

KEY = "key"
KEYED_DDL = f"{columns.DDL}, {KEY} string"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def with_key(events: DataFrame, projection: Any, catalog: Catalog) -> DataFrame:
    """The events with their key in the column `key_name`.

    If the key is in the payload, erased events have no key and are left out. A key that is not a text is null here;
    folding then refuses it and names the event.
    """
    if projection.key == BY_STREAM:
        return events
    if projection.key == BY_KIND:
        return events.withColumn(KEY, F.substring_index("stream", "/", 1))
    there = events.where(F.col("payload").isNotNull())
    if is_plain(projection, catalog):
        return there.withColumn(KEY, _text_at(projection.key.removeprefix(BY_PAYLOAD)))
    return there.mapInArrow(_adding_keys(projection, catalog), KEYED_DDL)


def key_name(projection: Any) -> str:
    """The column with the key: a key that is the stream needs no column of its own."""
    return "stream" if projection.key == BY_STREAM else KEY


def is_plain(projection: Any, catalog: Catalog) -> bool:
    """Whether the JVM finds the same key as Python."""
    path = projection.key.removeprefix(BY_PAYLOAD)
    no_upcasters = catalog.upcaster_digest(projection.types) == Catalog().upcaster_digest(projection.types)
    return no_upcasters and _PLAIN.fullmatch(path) is not None


def _text_at(path: str) -> Column:
    """The text at a path of the payload; null if there is no value, or it is not a text."""
    found = F.try_variant_get(F.parse_json("payload"), f"$.{path}", "variant")
    is_text = F.schema_of_variant(found) == "STRING"
    return F.when(is_text, found.cast("string"))


def _adding_keys(projection: Any, catalog: Catalog) -> Callable[[Batches], Batches]:
    def add(batches: Batches) -> Batches:
        with mark_errors():
            for batch in batches:
                events = catalog.upcast(list(columns.to_events(batch)))
                keys = pa.array([model.key_of(projection, event) for event in events], pa.string())
                arrays = [batch.column(name) for name in columns.COLUMNS]
                yield pa.RecordBatch.from_arrays([*arrays, keys], [*columns.COLUMNS, KEY])

    return add
