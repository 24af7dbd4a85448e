"""A part of another store's log as rows: what `transfer.judge` let pass.

A cut that a stream begins with is noted before the event is there that names it: the row says at which position that
event will stand, and `check_cuts` looks there.
"""

from __future__ import annotations

import sqlite3

import msgspec

from tallystick.engines.sqlite import statements, writing
from tallystick.event.model import Event
from tallystick.store.transfer import Received


def write(connection: sqlite3.Connection, part: Received, *, recorded: int) -> None:
    """Write a part. Cuts come first, because they let in what is noted as pruned; erasures follow their facts."""
    cuts = [(*msgspec.structs.astuple(founding.cut), founding.fact_position) for founding in part.cuts]
    connection.executemany(statements.named("insert_cut"), cuts)
    connection.executemany(statements.named("insert_pruned"), part.pruned)
    connection.executemany(statements.named("insert_skipped"), part.skipped)
    connection.executemany(
        statements.named("insert_event"), [writing.row_of(Event(*row), recorded) for row in part.rows]
    )
    heads = [(stream, head.seq, head.link, head.org) for stream, head in part.heads.items()]
    connection.executemany(statements.named("move_head"), heads)
    connection.executemany(statements.named("move_source"), [(*key, seq) for key, seq in part.sources.items()])
    erasures = [
        (erasure.position, erasure.stream, erasure.seq, erasure.checksum, fact_position)
        for erasure, fact_position in part.erasures
    ]
    connection.executemany(statements.named("insert_erasure"), erasures)
