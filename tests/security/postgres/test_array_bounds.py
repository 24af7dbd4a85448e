"""Arrays that are not counted from 1 skip no check of the functions that append."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from tallystick import Store
from tallystick.event.model import Row
from tallystick.store.verify import verify

from .raw import Draws, connect, rows_of

pytestmark = pytest.mark.security

FORGED = ("[]", '"x"', '{"a":1,"a":2}', '{"org":7}', '{"org":{"x":1}}', '{"source":"a","source_seq":1.5}')


def literal(values: Sequence[Any], first: int = 1) -> str:
    """An array as text, counted from `first`."""

    def one(value: Any) -> str:
        if value is None:
            return "NULL"
        text = f"\\x{value.hex()}" if isinstance(value, bytes) and len(value) == 32 else value
        text = text.hex() if isinstance(text, bytes) and len(text) == 16 else text
        text = text.decode() if isinstance(text, bytes) else str(text)
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return f"[{first}:{first + len(values) - 1}]={{{','.join(map(one, values))}}}"


def columns(rows: Sequence[Row], shifted: str) -> list[str]:
    """The arrays that both functions take, one of them counted from 2."""
    _, _, _, type_, version, id_, time, payload, meta, _, link, _ = zip(*rows, strict=True)
    given = {"type": type_, "version": version, "id": id_, "time": time, "payload": payload, "meta": meta, "link": link}
    given["signature"] = (None,) * len(rows)
    return [literal(values, 2 if key == shifted else 1) for key, values in given.items()]


def write_stream(connection: Any, rows: Sequence[Row], shifted: str = "") -> None:
    """Call the function with text arrays."""
    given = columns(rows, shifted)
    connection.execute(
        "SELECT tally.write_stream(%s, %s, %s::text[], %s::int[], %s::uuid[], %s::bigint[], %s::text[], %s::text[], "
        "%s::bytea[], %s::bytea[], 1)",
        (rows[0][1], rows[0][2], *given),
    )


def write_batch(connection: Any, rows: Sequence[Row], shifted: str = "", places: Sequence[int] = ()) -> None:
    """Call the function with text arrays."""
    own = {"stream": [1] * len(rows), "place": places or range(1, len(rows) + 1), "seq": [row[2] for row in rows]}
    first = [literal(values, 2 if key == shifted else 1) for key, values in own.items()]
    given = columns(rows, shifted)
    connection.execute(
        "SELECT tally.write_batch(%s::text[], %s::bytea[], %s::int[], %s::int[], %s::bigint[], %s::text[], %s::int[], "
        "%s::uuid[], %s::bigint[], %s::text[], %s::text[], %s::bytea[], %s::bytea[], 1)",
        (literal([rows[0][1]]), literal([rows[-1][10]]), *first, *given),
    )


@pytest.mark.parametrize("write", [write_stream, write_batch])
@pytest.mark.parametrize("meta", FORGED)
def test_meta_in_an_array_counted_from_2_is_looked_at(
    store: Store, login: Callable[..., str], write: Any, meta: str
) -> None:
    """CP-01: invalid meta is refused, with arrays counted from any number."""
    with connect(login("tally_app")) as connection:
        for shifted in ("", "meta"):
            with pytest.raises(psycopg.Error):
                write(connection, rows_of("order/a", [Draws(meta=meta)]), shifted)
    assert store.head() == 0


@pytest.mark.parametrize("shifted", ["", "stream", "place", "seq", "link", "type"])
def test_places_cannot_be_exchanged(store: Store, login: Callable[..., str], shifted: str) -> None:
    """CP-02: positions of a stream rise, with arrays counted from any number."""
    rows = rows_of("order/a", [Draws(), Draws()])
    with connect(login("tally_app")) as connection:
        with pytest.raises(psycopg.Error):
            write_batch(connection, rows, shifted, places=(2, 1))
        write_batch(connection, rows)
    assert [event.seq for event in store.read().events] == [1, 2]
    assert verify(store.log).ok


def test_tables_are_dropped_only_by_projection_and_epoch(store: Store, login: Callable[..., str]) -> None:
    """CP-01: no prefix names the tables of all projections."""
    with connect(login("tally_app")) as connection:
        for prefix in ("", "v", "view_", "view_orders"):
            with pytest.raises(psycopg.Error, match="projection and epoch"):
                connection.execute("SELECT tally.drop_view_tables(%s)", (prefix,))
