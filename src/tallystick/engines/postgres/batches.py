"""The rows that the ledger passed, as the writing statements take them: one array per column.

Invariant: the rows of a stream are contiguous and in its order, each with its place in the commit. If all belong to one
stream, seqs and positions follow from the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import msgspec

from tallystick import errors
from tallystick.engines.postgres import arrays
from tallystick.event.model import InRow, Row
from tallystick.store.commit import Outcome
from tallystick.store.ledger import Ledger

PROVISIONAL = -(1 << 62)  # the ledger numbers positions from here; they are negative until the database draws them
_stream, _seq = itemgetter(InRow.stream), itemgetter(InRow.seq)


def written_by(ledger: Ledger, *, recorded: int) -> tuple[str, tuple[Any, ...]]:
    """The name of the statement that writes what passed, and its values.

    `write_stream` pays in the row "postgres: batches of 1,000, everything on" of `python -m bench`: through
    `write_batch`, a batch to one stream takes 14% more processor time.
    """
    if len(ledger.heads) == 1:
        return "write_stream", of_one_stream(ledger.rows, recorded)
    return "write_batch", _of_several(ledger, recorded)


def of_one_stream(rows: list[Row], recorded: int) -> tuple[Any, ...]:
    """The values of `write_stream` and `append_batch`."""
    return (_stream(rows[0]), _seq(rows[0]), *_columns(rows), recorded)


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
        arrays.ints([numbers[_stream(row)] for row in rows]),
        arrays.ints(places),
        arrays.bigints(list(map(_seq, rows))),
        *_columns(rows),
        recorded,
    )


def _columns(rows: list[Row]) -> tuple[arrays.Array, ...]:
    """The columns that both kinds of statement take, in this order."""
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
    order = sorted(range(len(rows)), key=lambda at: numbers[_stream(rows[at])])
    return [rows[at] for at in order], [at + 1 for at in order]


def placed(outcome: Outcome, first: int) -> Outcome:
    """An outcome with the positions that were drawn, from `first`."""
    if isinstance(outcome, errors.TallyError):
        return outcome

    def drawn(position: int) -> int:
        return position - PROVISIONAL + first if position < 0 else position

    return [
        msgspec.structs.replace(
            done, first_position=drawn(done.first_position), last_position=drawn(done.last_position)
        )
        for done in outcome
    ]
