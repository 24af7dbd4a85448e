"""Arrays in binary: PostgreSQL reads exactly the values that were encoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tallystick.engines.postgres import arrays
from tallystick.testing import postgres

CASES: list[tuple[Callable[[Any], arrays.Array], list[Any], str]] = [
    (arrays.blobs, [], "bytea[]"),
    (arrays.blobs, [b"a"], "bytea[]"),
    (arrays.blobs, [b"a" * 32, b"b" * 32], "bytea[]"),
    (arrays.blobs, [b"a", b"", b"bcd"], "bytea[]"),
    (arrays.blobs, [b"", b""], "bytea[]"),
    (arrays.blobs, [None, b"a", b"b"], "bytea[]"),
    (arrays.blobs, [None, None], "bytea[]"),
    (arrays.texts, ["é".encode(), b"", b"x" * 70_000], "text[]"),
    (arrays.texts, [b"ab", b"cd"], "text[]"),
    (arrays.uuids, [], "uuid[]"),
    (arrays.uuids, [bytes(16), bytes(range(16))], "uuid[]"),
    (arrays.ints, [1, -1, 2**31 - 1], "integer[]"),
    (arrays.bigints, [7, 7, 7], "bigint[]"),
]


@pytest.mark.parametrize(("make", "values", "kind"), CASES)
def test_what_is_sent_is_what_arrives(make: Callable[[Any], arrays.Array], values: list[Any], kind: str) -> None:
    """CP-03: for elements of any size, equal or not, null or not."""
    with postgres.database() as url, psycopg.connect(url) as connection:
        for of, dumper in arrays.DUMPERS.items():
            connection.adapters.register_dumper(of, dumper)
        row = connection.execute(f"SELECT %b::{kind}", (make(values),), binary=True).fetchone()
        assert row is not None
        found = [value.encode() if kind == "text[]" else getattr(value, "bytes", value) for value in row[0]]
        assert found == values
