"""The appending functions, called with SQL by a login with `tally_app`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import psycopg

from tallystick.engines.postgres import arrays, batches, statements
from tallystick.event import chain, ids
from tallystick.event.model import Draft, Row
from tallystick.store.ledger import NO_HEAD, Head

FUNCTIONS = ("append_event", "append_command", "append_batch", "write_stream", "write_batch")
_EVENT = "SELECT status, position FROM tally.{}(%s, -1, %s, %s, %s::uuid, %s, %s, %s, %s, 1, false, NULL, NULL{})"


class Draws(msgspec.Struct):
    """A forged event."""

    payload: str = "{}"
    meta: str = "{}"
    type: str = "thing.done"
    version: int = 1
    time: int = 1
    signature: bytes | None = None

    def draft(self) -> Draft:
        """The event as the ledger takes it."""
        (id_,) = ids.default.mint(1, time_ns=time.time_ns())
        payload = self.payload.encode()
        return (
            self.type,
            self.version,
            id_,
            self.time,
            payload,
            self.meta.encode(),
            chain.checksum(payload),
            self.signature,
        )


def connect(url: str, org: str | None = None) -> psycopg.Connection[Any]:
    """A connection as the service's role, for an org if one is given."""
    connection = psycopg.connect(url, autocommit=True)
    for kind, dumper in arrays.DUMPERS.items():
        connection.adapters.register_dumper(kind, dumper)
    connection.execute("SET ROLE tally_app")
    connection.execute("SELECT set_config('tally.org', %s, false)", (org or "",))
    return connection


def rows_of(stream: str, forged: Sequence[Draws], head: Head = NO_HEAD) -> list[Row]:
    """Rows with the seqs and links that the database will also compute."""
    return chain.extend(stream, [each.draft() for each in forged], seq=head.seq, position=0, previous=head.link)


def call(
    connection: psycopg.Connection[Any], function: str, stream: str, forged: Sequence[Draws], head: Head = NO_HEAD
) -> Any:
    """Call a function that writes these events at the end of a stream."""
    if function in ("append_event", "append_command"):
        more = ""
        if function == "append_command":
            more = ", '', 'me', 'here', %s, '\\x00', '\\x00', 1"
        for each in forged:
            _, _, id_, *_ = each.draft()
            given = [secrets.token_hex(8)] if more else []
            values = [
                stream,
                each.type,
                each.version,
                id_.hex(),
                each.time,
                each.payload,
                each.meta,
                each.signature,
                *given,
            ]
            done = connection.execute(_EVENT.format(function, more).encode(), values).fetchone()
            assert done is not None
            if done[0] != "done":
                raise psycopg.DataError(f"status {done[0]}")
        return None
    rows = rows_of(stream, forged, head)
    if function == "write_batch":
        last = rows[-1]
        return write_batch(connection, {stream: Head(last[2], last[10])}, rows)
    statement = statements.named("write_stream").replace("write_stream", function)
    return connection.execute(statement, batches.of_one_stream(rows, 1)).fetchone()


def write_batch(connection: psycopg.Connection[Any], heads: dict[str, Head], rows: list[Row]) -> Any:
    """Call `write_batch` with rows in the given order."""
    values = batches._of_several(SimpleNamespace(heads=heads, rows=rows), 1)  # type: ignore[arg-type]
    return connection.execute(statements.named("write_batch"), values).fetchone()
