"""`CREATE TABLE name USING tallystick OPTIONS (url '...')`: the options are kept in the table's schema.

Spark 4.3 stores the options of such a table in its catalog, and hands none of them to a Python source that reads it. It
does hand over the schema, and keeps the metadata of its columns. So the first column carries the options. A table that
was created with a list of columns has no such place: Spark does not ask the source then.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructType

from tallystick import errors
from tallystick.pipeline.source import columns
from tallystick.pipeline.source.log_query import absolute, named, parse
from tallystick.store.stating import shown

_KEY = "tallystick.options"
_PROVIDER = "provider"  # only there while a table is created
_OF_CATALOG = frozenset({"owner", "provider", "location", "comment", "external", "is_managed_location", "collation"})
_TYPES: dict[str, DataType] = {
    "bigint": LongType(),
    "int": IntegerType(),
    "string": StringType(),
    "binary": BinaryType(),
}
_COPY = "option."  # each option is given a second time under this name


def schema(options: Mapping[str, str]) -> StructType:
    """Every column of an event; for `CREATE TABLE` with the options that a reader will need."""
    given, kept = named(options), None
    if _PROVIDER in given:
        kept = {_KEY: msgspec.json.encode(_checked(given)).decode()}
    found = StructType()
    for name, kind in columns.SPARK_TYPES.items():
        found.add(name, _TYPES[kind], metadata=None if found.fields else kept)
    return found


def _checked(given: Mapping[str, str]) -> dict[str, str]:
    """The options of the table without those of the catalog; refused if no log can be read by them."""
    own = {name: value for name, value in given.items() if name not in _OF_CATALOG and not name.startswith(_COPY)}
    if "path" in own:
        reason = "name the log by OPTIONS (url '...'), not by a path or a LOCATION"
        raise errors.NotForSpark(what="CREATE TABLE over", url=own["path"], reason=reason)
    url = absolute(parse(own).url)
    if shown(url) != url:
        must = "without a password here: what is written from the table carries its options along. Use PGPASSFILE"
        raise errors.InvalidValue(what="option url", value=shown(url), must=must)
    return own | {"url": url}


def options(found: StructType) -> dict[str, str]:
    """The options that the schema of a table carries; none if it is not one that `CREATE TABLE` made."""
    text = next((field.metadata[_KEY] for field in found.fields if _KEY in field.metadata), None)
    return {} if text is None else msgspec.json.decode(text, type=dict[str, str])
