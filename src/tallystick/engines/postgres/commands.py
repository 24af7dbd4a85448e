"""The records of commands in `tally.commands` and `tally.command_ranges`, which are written with their events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tallystick.engines.postgres.connections import ReadConnections
from tallystick.event import limits
from tallystick.store.idempotency import CommandKey, CommandRecord


def lock_name(key: CommandKey) -> str:
    """The name by which a commit locks a command, like a source of events. No source begins with a newline."""
    return "\n".join(("", *msgspec.structs.astuple(key)))


def columns(keys: Iterable[CommandKey]) -> list[list[str]]:
    """Keys as one list per column."""
    found = list(keys)
    return [[getattr(key, name) for key in found] for name in CommandKey.__struct_fields__]


def record_of(row: tuple[Any, ...]) -> CommandRecord:
    """A record from a row of `find_commands`."""
    org, actor, endpoint, key, request_hash, response, recorded, *parts = row
    ranges, places = tuple(zip(*parts[:3], strict=True)), tuple(zip(*parts[3:], strict=True))
    known = all(None not in place for place in places)
    return CommandRecord(
        CommandKey(org, actor, endpoint, key), request_hash, response, recorded, ranges, places if known else ()
    )


def values_of(records: Sequence[CommandRecord]) -> tuple[Any, ...]:
    """The values of `write_commands`."""
    ranges = [
        (number, part, *range_) for number, record in enumerate(records, 1) for part, range_ in enumerate(record.ranges)
    ]
    return (
        *columns(record.key for record in records),
        [record.request_hash for record in records],
        [record.response for record in records],
        [record.recorded for record in records],
        *([range_[index] for range_ in ranges] for index in range(5)),
    )


def parameters(record: CommandRecord) -> tuple[bytes, ...]:
    """A command as `append_command` takes it after its event."""
    key = tuple(part.encode() for part in msgspec.structs.astuple(record.key))
    return (*key, record.request_hash, record.response, record.recorded.to_bytes(8, "big", signed=True))


class PostgresCommands:
    """The records of one database. `forget` deletes the old ones, as the handle may."""

    def __init__(self, connections: ReadConnections, *, forget: Callable[[int, int], int]) -> None:
        self._connections = connections
        self._forget = forget

    def load(self, key: CommandKey) -> CommandRecord | None:
        rows = self._connections.rows("find_commands", columns([key]))
        return record_of(rows[0]) if rows else None

    def touching(self, stream: str, seq: int) -> list[CommandKey]:
        values = {"stream": stream, "seq": seq, "span": limits.COMMIT_EVENTS_MAX}
        return [CommandKey(*row) for row in self._connections.rows("commands_touching", values)]

    def forget(self, *, before: int, limit: int) -> int:
        return self._forget(before, limit)
