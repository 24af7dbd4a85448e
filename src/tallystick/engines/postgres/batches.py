"""What passed the ledger as a statement writes it: one array a column.

Invariant: rows stand stream by stream, each with its place in the commit, or are all of one stream and in its order;
then seqs and positions follow from the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallystick.engines.postgres import arrays
from tallystick.event.model import Row
from tallystick.store.ledger import Ledger


def written_by(ledger: Ledger, *, recorded: int) -> tuple[str, tuple[Any, ...]]:
    """The name of the statement that writes what passed, and its values."""
    if len(ledger.heads) == 1:
        return "write_stream", of_one_stream(ledger.rows, recorded)
    return "write_batch", _of_several(ledger, recorded)


def of_one_stream(rows: list[Row], recorded: int) -> tuple[Any, ...]:
    """The values of `write_stream` and `append_batch`."""
    return (rows[0][1], rows[0][2], *_columns(rows), recorded)


def in_binary(values: tuple[Any, ...]) -> list[bytes]:
    """The values of `of_one_stream` as a prepared statement takes them."""
    stream, seq, *columns, recorded = values
    return [
        stream.encode(),
        seq.to_bytes(8, "big"),
        *[array.data for array in columns],
        recorded.to_bytes(8, "big", signed=True),
    ]


def _of_several(ledger: Ledger, recorded: int) -> tuple[Any, ...]:
    numbers = {stream: number for number, stream in enumerate(ledger.heads, 1)}
    rows, places = _by_stream(ledger.rows, numbers)
    return (
        arrays.texts([stream.encode() for stream in numbers]),
        arrays.blobs([head.link for head in ledger.heads.values()]),
        arrays.ints([numbers[row[1]] for row in rows]),
        arrays.ints(places),
        arrays.bigints([row[2] for row in rows]),
        *_columns(rows),
        recorded,
    )


def _columns(rows: list[Row]) -> tuple[arrays.Array, ...]:
    """What both kinds of statement take of the rows, in this order."""
    _, _, _, kinds, versions, ids, times, payloads, metas, _, links, signatures = zip(*rows, strict=True)
    return (
        _texts_of(kinds),
        arrays.ints(versions),
        arrays.uuids(ids),
        arrays.bigints(times),
        arrays.texts(payloads),
        arrays.texts(metas),
        arrays.blobs(links),
        arrays.blobs(signatures),
    )


def _texts_of(kinds: Sequence[str]) -> arrays.Texts:
    encoded = {kind: kind.encode() for kind in set(kinds)}
    return arrays.texts([encoded[kind] for kind in kinds])


def _by_stream(rows: list[Row], numbers: dict[str, int]) -> tuple[list[Row], list[int]]:
    """The rows of each stream together, in their order, and the place of each in the commit, from 1."""
    order = sorted(range(len(rows)), key=lambda at: numbers[rows[at][1]])
    return [rows[at] for at in order], [at + 1 for at in order]
