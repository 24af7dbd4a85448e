"""A selection as SQL: every condition is judged by SQLite, and every value is bound.

Conditions that an index answers in order of position stand bare. The others carry a `+`, which keeps SQLite from
using an index that would make it collect and sort all that is selected for each page.
"""

from __future__ import annotations

import json
from typing import Any

from tallystick.engines.sqlite import statements
from tallystick.store.selection import Selection

_PLACE = "/* and it is selected */"
_CONDITIONS = {
    "type": "type = :type",
    "types": "+type IN (SELECT value FROM json_each(:types))",
    "streams": "+stream IN (SELECT value FROM json_each(:streams))",
    "kinds": "substr(stream, 1, instr(stream, '/') - 1) IN (SELECT value FROM json_each(:kinds))",
    "org": "org = :org",
    "app": "app = :app",
    "env": "env = :env",
    "time_from": "time >= :time_from",
    "time_until": "time < :time_until",
}


def page_query(selection: Selection, *, first: int, until: int, limit: int) -> tuple[str, dict[str, Any]]:
    """The statement for one page of what is selected, and its values."""
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
