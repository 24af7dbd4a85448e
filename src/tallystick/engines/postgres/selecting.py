"""A selection as SQL: every condition is judged by PostgreSQL, and every value is bound."""

from __future__ import annotations

from typing import Any, LiteralString

from tallystick.engines.postgres import statements
from tallystick.store.selection import Selection

_PLACE = "/* and it is selected */"
_CONDITIONS = {
    "type": "type = %(type)s",
    "types": "type = ANY (%(types)s::text[])",
    "streams": "stream = ANY (%(streams)s::text[])",
    "kinds": "split_part(stream, '/', 1) = ANY (%(kinds)s::text[])",
    "org": "org = %(org)s",
    "app": "app = %(app)s",
    "env": "env = %(env)s",
    "time_from": "time >= %(time_from)s",
    "time_until": "time < %(time_until)s",
}


def page_query(selection: Selection, *, after: int, until: int, limit: int) -> tuple[LiteralString, dict[str, Any]]:
    """The statement for one page of what is selected, and its values."""
    bounds = {"after": after, "until": until, "limit": limit}
    values = _values(selection)
    conditions = "".join(f" AND {_CONDITIONS[name]}" for name in values if name in _CONDITIONS)
    query = statements.named("read_page_of_stream" if "stream" in values else "read_page")
    return query.replace(_PLACE, conditions), bounds | values


def _values(selection: Selection) -> dict[str, Any]:
    values: dict[str, Any] = dict(selection.scope)
    if len(selection.types) == 1:
        (values["type"],) = selection.types
    elif selection.types:
        values["types"] = sorted(selection.types)
    if len(selection.streams) == 1:
        (values["stream"],) = selection.streams
    elif selection.streams:
        values["streams"] = sorted(selection.streams)
    if selection.kinds:
        values["kinds"] = sorted(selection.kinds)
    if selection.time_from is not None:
        values["time_from"] = selection.time_from
    if selection.time_until is not None:
        values["time_until"] = selection.time_until
    return values
