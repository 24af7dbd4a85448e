"""Events from PostgreSQL as Arrow batches by ADBC, without a Python object for each event.

The log supplies the query, with its role, its tenant and its bounds; this module runs it over a connection of its own.
Where ADBC is not installed, the log itself is read with psycopg. The row `source over postgres, to nowhere` measures
the gain.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pyarrow as pa

from tallystick import errors
from tallystick.store.server_sql import SessionQuery

DRIVER = "adbc_driver_postgresql"
BATCH_BYTES = 4 << 20
_BATCH_BYTES_OPTION = "adbc.postgresql.batch_size_hint_bytes"


def is_installed() -> bool:
    """Whether the driver is installed."""
    return importlib.util.find_spec(DRIVER) is not None


def batches(url: str, question: SessionQuery, schema: pa.Schema, *, shown: str) -> Iterator[pa.RecordBatch]:
    """The result of a query, batch after batch. `shown` is the URL without its password, for errors."""
    from adbc_driver_postgresql import dbapi

    with (
        _translated_errors(shown),
        closing(dbapi.connect(url, autocommit=True)) as connection,
        closing(connection.cursor()) as cursor,
    ):
        for statement in question.before:
            cursor.execute(statement)
            cursor.fetchall()
        cursor.adbc_statement.set_options(**{_BATCH_BYTES_OPTION: str(BATCH_BYTES)})
        cursor.execute(question.query)
        for batch in cursor.fetch_record_batch():
            yield _fitted(batch, schema)


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch without the driver's metadata on types, which Spark would take for another schema."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@contextmanager
def _translated_errors(url: str) -> Iterator[None]:
    """Raise errors of the driver as `NotReachable` or `StoreFailed`."""
    from adbc_driver_manager import Error, OperationalError

    try:
        yield
    except Error as problem:
        reason = " ".join(str(problem).split())
        if isinstance(problem, OperationalError):
            raise errors.NotReachable(url=url, reason=reason) from problem
        raise errors.StoreFailed(operation="a statement by ADBC", reason=reason) from problem
