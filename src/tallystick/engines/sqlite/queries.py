"""Selections and summaries as SQL. Every value is bound.

A condition that an index answers in order of position is written as it is. The others have a `+`, which keeps SQLite
from using an index: it would have to collect and sort the whole selection for each page.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from typing import Any

from tallystick.engines.sqlite import matches, statements
from tallystick.engines.sqlite.rows import events_of
from tallystick.engines.sqlite.view import SqliteView
from tallystick.event.model import Event
from tallystick.store import summary_sql
from tallystick.store.maintenance import require_positions
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.views import BY_PAYLOAD

_PLACE = "/* and it is selected */"
_CONDITIONS = {
    "type": "type = :type",
    "types": "+type IN (SELECT value FROM json_each(:types))",
    "streams": "+stream IN (SELECT value FROM json_each(:streams))",
    "kinds": "substr(stream, 1, instr(stream, '/') - 1) IN (SELECT value FROM json_each(:kinds))",
    "org": "org = :org",
    "app": "app = :app",
    "env": "env = :env",
    **{key: f"CAST(meta AS TEXT) ->> '$.{key}' = :{key}" for key in ("actor_id", "correlation_id", "causation_id")},
    "time_from": "time >= :time_from",
    "time_until": "time < :time_until",
}
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


def page(connection: sqlite3.Connection, selection: Selection, *, first: int, until: int, limit: int) -> list[Event]:
    """The events of one page of what is selected."""
    query = selection.query
    if query is not None and not query.is_everything:
        return matches.events(connection, selection, query, first=first, until=until, limit=limit)
    return events_of(connection.execute(*page_query(selection, first=first, until=until, limit=limit)))


def page_query(selection: Selection, *, first: int, until: int, limit: int) -> tuple[str, dict[str, Any]]:
    """The statement for one page of what is selected without a query, and its values."""
    bounds = {"first": first, "until": until, "limit": limit}
    values = _values(selection)
    conditions = "".join(f" AND {_CONDITIONS[name]}" for name in values if name in _CONDITIONS)
    query = statements.named("read_page_of_stream" if "stream" in values else "read_page")
    return query.replace(_PLACE, conditions), bounds | values


def _values(selection: Selection) -> dict[str, Any]:
    values: dict[str, Any] = dict(selection.scope)
    if len(selection.types) == 1:
        (values["type"],) = selection.types
    elif selection.types:
        values["types"] = json.dumps(sorted(selection.types))
    if len(selection.streams) == 1:
        (values["stream"],) = selection.streams
    elif selection.streams:
        values["streams"] = json.dumps(sorted(selection.streams))
    if selection.kinds:
        values["kinds"] = json.dumps(sorted(selection.kinds))
    if selection.time_from is not None:
        values["time_from"] = selection.time_from
    if selection.time_until is not None:
        values["time_until"] = selection.time_until
    return values


def summed(connection: sqlite3.Connection, asked: summary_sql.SummaryQuery, *, until: int) -> list[tuple[Any, ...]]:
    """The rows of a summary, as of the transaction of the connection.

    Each payload is compared with its checksum; links are not checked.
    """
    require_positions(EVERYTHING, {}, SqliteView(connection).floor(), after=0)
    connection.create_function("sha256", 1, lambda payload: hashlib.sha256(payload).digest(), deterministic=True)
    query = summary_sql.filled(statements.named("summarise"), asked, _EXTRACTING, _COLLECTING)
    is_kept = not asked.key.startswith(BY_PAYLOAD)  # an erased event has no key there
    values = {"until": until, "types": json.dumps(asked.types), "erased": is_kept}
    return connection.execute(query, values).fetchall()
