"""Queries that are put together: a page or range of a selection, and sums. PostgreSQL judges every condition, and every
value is bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from tallystick import errors
from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import ReadConnections
from tallystick.store import capabilities, summary_sql
from tallystick.store.selection import Selection
from tallystick.store.views import BY_PAYLOAD

_PLACE = "/* and it is selected */"
_CONDITIONS: dict[str, LiteralString] = {
    "type": "type = %(type)s",
    "types": "type = ANY (%(types)s::text[])",
    "streams": "stream = ANY (%(streams)s::text[])",
    "kinds": "split_part(stream, '/', 1) = ANY (%(kinds)s::text[])",
    "org": "org = %(org)s",
    "app": "app = %(app)s",
    "env": "env = %(env)s",
    "actor_id": "meta::json ->> 'actor_id' = %(actor_id)s",
    "correlation_id": "meta::json ->> 'correlation_id' = %(correlation_id)s",
    "causation_id": "meta::json ->> 'causation_id' = %(causation_id)s",
    "time_from": "time >= %(time_from)s",
    "time_until": "time < %(time_until)s",
}
_COLUMNS_PLACE = "/* these columns */"
_OF_STREAM: LiteralString = " AND stream = %(stream)s"
_COLUMNS: dict[str, LiteralString] = {
    "position": "position",
    "stream": "stream",
    "seq": "seq",
    "type": "type",
    "version": "version",
    "id": "uuid_send(id) AS id",
    "time": "time",
    "payload": "payload",
    "meta": "meta",
    "checksum": "checksum",
    "link": "link",
    "signature": "signature",
}
_LOG_IS_WHOLE: LiteralString = " AND NOT EXISTS (SELECT FROM tally.cuts WHERE last_position > %(after)s)"
_STREAMS_ARE_WHOLE: LiteralString = (
    " AND NOT EXISTS (SELECT FROM tally.cuts AS cut WHERE cut.stream = ANY (%(cut_streams)s::text[])"
    " AND cut.last_position > %(after)s)"
)


def page_query(
    selection: Selection, *, after: int, until: int, limit: int, over_pruned: bool
) -> tuple[LiteralString, dict[str, Any]]:
    """The statement for one page of what is selected, and its values.

    Without `over_pruned`, the page is empty if it would begin below a cut. Page and cuts are seen with one snapshot.
    """
    bounds = {"after": after, "until": until, "limit": limit}
    values = _values(selection)
    query = statements.named("read_page_of_stream" if "stream" in values else "read_page")
    return query.replace(_PLACE, _conditions(selection, values, over_pruned=over_pruned)), bounds | values


def range_query(
    columns: Sequence[str], selection: Selection, *, after: int, until: int, over_pruned: bool
) -> tuple[LiteralString, dict[str, Any]]:
    """As `page_query`, for some columns of everything up to `until`, with payload and meta as text."""
    values = _values(selection)
    conditions = _conditions(selection, values, over_pruned=over_pruned)
    if "stream" in values:
        conditions += _OF_STREAM
    listed = ", ".join(_COLUMNS[name] for name in columns)
    query = statements.named("read_range").replace(_COLUMNS_PLACE, listed).replace(_PLACE, conditions)
    return query, {"after": after, "until": until} | values


def _conditions(selection: Selection, values: dict[str, Any], *, over_pruned: bool) -> LiteralString:
    conditions: LiteralString = "".join(f" AND {_CONDITIONS[name]}" for name in values if name in _CONDITIONS)
    if not over_pruned:
        conditions += _STREAMS_ARE_WHOLE if selection.streams else _LOG_IS_WHOLE
    return conditions


def _values(selection: Selection) -> dict[str, Any]:
    if selection.query is not None:
        raise errors.UnsupportedCapability(engine="postgres", capability=capabilities.CONDITIONS)
    values: dict[str, Any] = dict(selection.scope)
    if len(selection.types) == 1:
        (values["type"],) = selection.types
    elif selection.types:
        values["types"] = sorted(selection.types)
    if len(selection.streams) == 1:
        (values["stream"],) = selection.streams
    elif selection.streams:
        values["streams"] = sorted(selection.streams)
    if selection.streams:
        values["cut_streams"] = sorted(selection.streams)
    if selection.kinds:
        values["kinds"] = sorted(selection.kinds)
    if selection.time_from is not None:
        values["time_from"] = selection.time_from
    if selection.time_until is not None:
        values["time_until"] = selection.time_until
    return values


_EXTRACTING = summary_sql.PayloadSyntax(
    path=lambda steps: "{" + ",".join(steps) + "}",
    json="NULLIF((body #> '{p}')::text, 'null')",
    string="body #>> '{p}'",
    kind="split_part(stream, '/', 1)",
    is_text="left({t}, 1) = '\"'",
    has_only="{t} !~ '[^{characters}]'",
    find="strpos({t}, '.')",
)
_COLLECTING = summary_sql.AggregateSyntax(
    latest="(lpad(position::text, 20, '0') || {0}) COLLATE \"C\"",
    distinct='array_agg(DISTINCT {0} COLLATE "C") FILTER (WHERE {0} IS NOT NULL)',
    ranked="array_agg({0}) FILTER (WHERE {top} AND {0} IS NOT NULL)",
    in_order='{0} COLLATE "C"',
)


def summed(connections: ReadConnections, asked: summary_sql.SummaryQuery, *, until: int) -> list[tuple[Any, ...]]:
    """The rows of a sum, from one statement and so one snapshot; none if a part of the log was pruned.

    Each payload is compared with its checksum; links are not looked at.
    """
    query = summary_sql.filled(statements.named("summarise"), asked, _EXTRACTING, _COLLECTING)
    is_kept = not asked.key.startswith(BY_PAYLOAD)  # an erased event has no key there
    hidden = connections.org is not None  # a tenant need not see the facts about its events
    values = {"until": until, "types": list(asked.types), "erased": is_kept, "hidden": hidden}
    return connections.fetch(query, values)
