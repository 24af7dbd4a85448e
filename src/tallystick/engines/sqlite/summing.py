"""Aggregates computed by SQLite. Each payload is held against its checksum on the way; links are not looked at."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from typing import Any

from tallystick.engines.sqlite import statements
from tallystick.engines.sqlite.view import SqliteView
from tallystick.store import summary_sql
from tallystick.store.maintenance import require_positions
from tallystick.store.selection import EVERYTHING
from tallystick.store.views import BY_PAYLOAD

_PAYLOAD = "CAST(payload AS TEXT)"
_EXTRACTING = summary_sql.PayloadSyntax(
    path=lambda steps: "$." + ".".join(steps),
    json=f"NULLIF({_PAYLOAD} -> '{{p}}', 'null')",
    string=f"{_PAYLOAD} ->> '{{p}}'",
    kind="substr(stream, 1, instr(stream, '/') - 1)",
    is_text="substr({t}, 1, 1) = '\"'",
    has_only="{t} NOT GLOB '*[^{characters}]*'",
    find="instr({t}, '.')",
)
_COLLECTING = summary_sql.AggregateSyntax(
    latest="printf('%020d', position) || {0}",
    distinct="json_group_array(DISTINCT {0}) FILTER (WHERE {0} IS NOT NULL)",
    ranked="json_group_array({0}) FILTER (WHERE {top} AND {0} IS NOT NULL)",
)


def summed(connection: sqlite3.Connection, asked: summary_sql.SummaryQuery, *, until: int) -> list[tuple[Any, ...]]:
    """The answer, as of the transaction that the connection is in."""
    require_positions(EVERYTHING, {}, SqliteView(connection).floor(), after=0)
    connection.create_function("sha256", 1, lambda payload: hashlib.sha256(payload).digest(), deterministic=True)
    query = summary_sql.filled(statements.named("summarise"), asked, _EXTRACTING, _COLLECTING)
    is_kept = not asked.key.startswith(BY_PAYLOAD)  # an erased event has no key there
    values = {"until": until, "types": json.dumps(asked.types), "erased": is_kept}
    return connection.execute(query, values).fetchall()
