"""A statement that is sent prepared, with its parameters in binary as they are: for the one that is sent most.

A cursor looks up how to send each value of each call, and builds what reads the answer; here both are known.
Format: numbers big-endian, as many bytes as their type has; texts in UTF-8; ids and bytes as they are.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors as reported
from psycopg import generators
from psycopg.pq import ExecStatus, Format

from tallystick.engines.postgres import statements

_BINARY = Format.BINARY


class Prepared:
    """One statement with `$1`, `$2` … for its parameters, whose types it names itself; prepared once a connection."""

    def __init__(self, name: str, query: str) -> None:
        self._name = name.encode()
        self._query = query.encode()
        self._formats = [_BINARY] * len(set(re.findall(r"\$\d+", query)))
        self._known: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()

    def row(self, connection: psycopg.Connection[Any], values: Sequence[bytes | None]) -> list[bytes | None]:
        """The one row of the answer, as bytes. Errors are psycopg's, as those of a cursor."""
        if connection in self._known:
            try:
                return self._sent(connection, values)
            except reported.InvalidSqlStatementName:  # psycopg forgets all after a rollback; nothing was run
                self._known.discard(connection)
        connection.pgconn.send_prepare(self._name, self._query)
        self._answer(connection, ExecStatus.COMMAND_OK)
        self._known.add(connection)
        return self._sent(connection, values)

    def _sent(self, connection: psycopg.Connection[Any], values: Sequence[bytes | None]) -> list[bytes | None]:
        connection.pgconn.send_query_prepared(self._name, values, self._formats, _BINARY)
        answer = self._answer(connection, ExecStatus.TUPLES_OK)
        return [answer.get_value(0, column) for column in range(answer.nfields)]

    def _answer(self, connection: psycopg.Connection[Any], wanted: ExecStatus) -> Any:
        answer = connection.wait(generators.execute(connection.pgconn))[-1]
        if answer.status != wanted:
            raise reported.error_from_result(answer, encoding=connection.info.encoding)
        return answer


def named(name: str) -> Prepared:
    """The statement in `sql/queries/<name>.sql`."""
    return Prepared(f"tally_{name}", statements.named(name))
