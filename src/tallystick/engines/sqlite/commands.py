"""The records of commands, in the tables `commands` and `command_ranges`: written with the events they appended."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from tallystick.engines.sqlite import statements
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.tables.database import Database
from tallystick.event import limits
from tallystick.store.idempotency import CommandKey, CommandRecord


def insert(connection: sqlite3.Connection, records: Sequence[CommandRecord]) -> None:
    """Record commands, inside the transaction of their events."""
    for record in records:
        key = record.key
        values = (key.org, key.actor, key.endpoint, key.key, record.request_hash, record.recorded, record.response)
        number = connection.execute(statements.named("insert_command"), values).lastrowid
        places = record.places or ((None, None, None),) * len(record.ranges)
        ranges = [
            (number, part, *range_, *place)
            for part, (range_, place) in enumerate(zip(record.ranges, places, strict=True))
        ]
        connection.executemany(statements.named("insert_range"), ranges)


def erase_responses(connection: sqlite3.Connection, keys: Sequence[CommandKey]) -> None:
    """Replace these records by ones without a response: a record itself is never changed."""
    found = [record for key in keys if (record := SqliteView(connection).command(key)) is not None]
    forgotten = [(key.org, key.actor, key.endpoint, key.key) for key in (record.key for record in found)]
    connection.executemany(statements.named("forget_command"), forgotten)
    insert(connection, [record.without_response for record in found])


class SqliteCommands:
    """The records in the tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self, key: CommandKey) -> CommandRecord | None:
        with self._database.snapshot() as connection:
            return SqliteView(connection).command(key)

    def touching(self, stream: str, seq: int) -> list[CommandKey]:
        values = {"stream": stream, "seq": seq, "span": limits.COMMIT_EVENTS_MAX}
        with self._database.reading() as connection:
            return [CommandKey(*row) for row in connection.execute(statements.named("commands_touching"), values)]

    def forget(self, *, before: int, limit: int) -> int:
        with self._database.maintaining() as connection:
            return int(connection.execute(statements.named("forget_commands"), (before, limit)).rowcount)
