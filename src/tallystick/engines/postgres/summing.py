"""Aggregates computed by PostgreSQL. Each payload is held against its checksum on the way; links are not looked at."""

from __future__ import annotations

from typing import Any

from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import Reading
from tallystick.store import summing
from tallystick.store.views import BY_PAYLOAD

_EXTRACTING = summing.Extracting(
    path=lambda steps: "{" + ",".join(steps) + "}",
    json="NULLIF((body #> '{p}')::text, 'null')",
    string="body #>> '{p}'",
    kind="split_part(stream, '/', 1)",
    is_text="left({t}, 1) = '\"'",
    has_only="{t} !~ '[^{characters}]'",
    find="strpos({t}, '.')",
)
_COLLECTING = summing.Collecting(
    latest="(lpad(position::text, 20, '0') || {0}) COLLATE \"C\"",
    distinct='array_agg(DISTINCT {0} COLLATE "C") FILTER (WHERE {0} IS NOT NULL)',
    ranked="array_agg({0}) FILTER (WHERE {top} AND {0} IS NOT NULL)",
    in_order='{0} COLLATE "C"',
)


def summed(connections: Reading, asked: summing.Asked, *, until: int) -> list[tuple[Any, ...]]:
    """The answer of one statement, so of one snapshot; nothing if a part of the log was pruned."""
    query = statements.named("summarise")
    for place, text in {
        "/* the aggregates */": summing.columns(_COLLECTING, asked),
        "/* the ranks */": summing.ranks(asked),
        "/* the values */": summing.values(_EXTRACTING, asked),
        "/* the fields */": summing.fields(_EXTRACTING, asked),
    }.items():
        query = query.replace(place, text)  # type: ignore[arg-type]
    is_kept = not asked.key.startswith(BY_PAYLOAD)  # an erased event has no key there
    hidden = connections.org is not None  # a tenant need not see the facts about its events
    values = {"until": until, "types": list(asked.types), "erased": is_kept, "hidden": hidden}
    return connections.answer(query, values)
