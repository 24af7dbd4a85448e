"""`CREATE TABLE name USING tallystick OPTIONS (url '...')`: the options are stored in the table's schema.

Spark 4.3 stores the options of such a table in its catalog, but does not pass them to a Python source that reads it.
It does pass the schema, with the metadata of its columns. So the metadata of the first column holds the options. A
table that was created with a list of columns has no such metadata: then Spark does not ask the source for a schema.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructType

from tallystick import errors
from tallystick.pipeline.source import columns
from tallystick.pipeline.source.log_query import absolute_url, lower_case_names, parse
from tallystick.store.urls import redacted

_KEY = "tallystick.options"
_PROVIDER = "provider"  # only there while a table is created
_OF_CATALOG = frozenset({"owner", "provider", "location", "comment", "external", "is_managed_location", "collation"})
_TYPES: dict[str, DataType] = {
    "bigint": LongType(),
    "int": IntegerType(),
    "string": StringType(),
    "binary": BinaryType(),
}
_COPY = "option."  # Spark passes each option a second time, with this prefix


def schema(options: Mapping[str, str]) -> StructType:
    """Every column of an event; for `CREATE TABLE` also the options that a reader will need."""
    given, kept = lower_case_names(options), None
    if _PROVIDER in given:
        kept = {_KEY: msgspec.json.encode(_checked(given)).decode()}
    found = StructType()
    for name, kind in columns.SPARK_TYPES.items():
        found.add(name, _TYPES[kind], metadata=None if found.fields else kept)
    return found


def _checked(given: Mapping[str, str]) -> dict[str, str]:
    """The options of the table without those of the catalog; refused if they do not name a log that can be read."""
    own = {name: value for name, value in given.items() if name not in _OF_CATALOG and not name.startswith(_COPY)}
    if "path" in own:
        reason = "name the log by OPTIONS (url '...'), not by a path or a LOCATION"
        raise errors.NotForSpark(what="CREATE TABLE over", url=own["path"], reason=reason)
    url = absolute_url(parse(own).url)
    if redacted(url) != url:
        must = "without a password here: tables that are written from this one copy its options. Use PGPASSFILE"
        raise errors.InvalidValue(what="option url", value=redacted(url), must=must)
    return own | {"url": url}


def options(found: StructType) -> dict[str, str]:
    """The options in the schema of a table; empty if `CREATE TABLE` did not make the schema."""
    text = next((field.metadata[_KEY] for field in found.fields if _KEY in field.metadata), None)
    return {} if text is None else msgspec.json.decode(text, type=dict[str, str])
