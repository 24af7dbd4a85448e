"""Queries that are put together: a page or range of a selection, and sums. PostgreSQL judges every condition, and every
value is bound."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any, LiteralString

from tallystick.engines.postgres import conditions, statements
from tallystick.engines.postgres.connections import ReadConnections
from tallystick.event.model import Event
from tallystick.store import summary_sql
from tallystick.store.events import PAGE_EVENTS
from tallystick.store.page import Page
from tallystick.store.query import Query
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
_MATCHES: LiteralString = (
    " AND position IN (SELECT tally.matching(%(items)s::jsonb, %(after)s, %(until)s, %(org)s, NULL))"
)
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


def page(
    connections: ReadConnections, selection: Selection, *, after: int, until: int, limit: int, over_pruned: bool
) -> tuple[Page, bool]:
    """One page of what is selected, and whether one statement read it.

    Without `over_pruned`, it is empty if it would begin below a cut. Page and cuts are seen with one snapshot.
    """
    values = _values(selection) | {"after": after, "until": until, "limit": limit}
    wanted = _conditions(selection, values, over_pruned=over_pruned)
    if selection.query is not None:
        return _page_of_query(connections, selection, selection.query, wanted, values)
    query = statements.named("read_page_of_stream" if "stream" in values else "read_page")
    events = list(starmap(Event, connections.fetch(query.replace(_PLACE, wanted), values)))
    return Page(events, events[-1].position if len(events) == limit else until), True


def _page_of_query(
    connections: ReadConnections, selection: Selection, query: Query, wanted: LiteralString, values: dict[str, Any]
) -> tuple[Page, bool]:
    """As `page`, from the places that the index of tags gives, until there are enough that other conditions select."""
    limit, until, past = int(values["limit"]), int(values["until"]), int(values["after"])
    is_alone = Selection(query=query, org=selection.org) == selection
    most = limit if is_alone else max(limit, PAGE_EVENTS)
    asked = {"items": conditions.to_json(query.items), "org": selection.org, "most": most}
    statement = statements.named("read_matching").replace(_PLACE, wanted + (_OF_STREAM if "stream" in values else ""))
    events: list[Event] = []
    is_first = True
    while True:
        rows = connections.fetch(statement, values | asked | {"past": past})
        events += [Event(*row) for row in rows if row[1] is not None]
        if len(events) >= limit:
            return Page(events[:limit], events[limit - 1].position), is_first
        if len(rows) < most:
            return Page(events, until), is_first
        past, is_first = rows[-1][0], False


def range_query(
    columns: Sequence[str], selection: Selection, *, after: int, until: int, over_pruned: bool
) -> tuple[LiteralString, dict[str, Any]]:
    """The statement for some columns of everything up to `until`, with payload and meta as text, and its values."""
    values = _values(selection)
    wanted = _conditions(selection, values, over_pruned=over_pruned)
    if "stream" in values:
        wanted += _OF_STREAM
    if selection.query is not None:
        wanted += _MATCHES
        values |= {"items": conditions.to_json(selection.query.items), "org": selection.org}
    listed = ", ".join(_COLUMNS[name] for name in columns)
    query = statements.named("read_range").replace(_COLUMNS_PLACE, listed).replace(_PLACE, wanted)
    return query, {"after": after, "until": until} | values


def _conditions(selection: Selection, values: dict[str, Any], *, over_pruned: bool) -> LiteralString:
    wanted: LiteralString = "".join(f" AND {_CONDITIONS[name]}" for name in values if name in _CONDITIONS)
    if not over_pruned:
        wanted += _STREAMS_ARE_WHOLE if selection.streams else _LOG_IS_WHOLE
    return wanted


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
