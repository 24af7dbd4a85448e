"""Aggregates over the events of a log, as a query with the same text for every dialect of SQL except a few words.

    fields of payloads as JSON text  →  checked values  →  ranks  →  aggregates by key and window

The query is built only from our own templates, whole numbers, and plain names. Values are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from tallystick.store.views import BY_KIND, BY_PAYLOAD, BY_STREAM

INTEGER, DECIMAL, TEXT, ANY = "a whole number", "a decimal", "a text", "any value"
HEADS = 5
"""The number of columns before the aggregates: the key (as JSON text, if it is from the payload), the window, and the
first positions: of the group, of a value that its measure does not accept, and of an event that was changed."""


class Aggregate(msgspec.Struct, frozen=True):
    """What is computed from one field: `sql` are templates over its JSON text `{t}` and its value `{v}`."""

    sql: tuple[str, ...]
    takes: str = ANY
    path: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    places: int = 0
    size: int = 0


class SummaryQuery(msgspec.Struct, frozen=True):
    """Aggregates of the events of these types, by key and by windows of this many ns (0: a single one)."""

    key: str
    types: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    window_ns: int = 0


class AggregateSyntax(NamedTuple):
    """How a dialect writes the aggregates that differ between dialects; `{0}` is the column."""

    latest: str
    distinct: str
    ranked: str
    in_order: str = "{0}"
    """A text that is compared by code points."""


class PayloadSyntax(NamedTuple):
    """How a dialect reads a payload; `{p}` is a path in its syntax, `{t}` the JSON text at that path."""

    path: Callable[[Sequence[str]], str]
    json: str
    string: str
    kind: str
    is_text: str
    has_only: str
    find: str


@runtime_checkable
class AnswersSummaries(Protocol):
    """A log whose database can compute aggregates over its events."""

    def summed(self, asked: SummaryQuery, *, until: int) -> list[tuple[Any, ...]]:
        """The result up to a position, from one snapshot. A log is refused if a part was pruned or lost."""


# --- from payloads to values -----------------------------------------------------------------------------------------


def fields(how: PayloadSyntax, asked: SummaryQuery) -> str:
    """The columns `key`, `win`, and the JSON text and string at each path."""
    found = [f"{_key(how, asked.key)} AS key", f"{_window(asked.window_ns)} AS win"]
    for at, path in enumerate(_paths(asked)):
        found.append(f"{how.json.format(p=how.path(path))} AS t{at:d}")
        found.append(f"{how.string.format(p=how.path(path))} AS s{at:d}")
    return ", ".join(found)


def values(how: PayloadSyntax, asked: SummaryQuery) -> str:
    """The columns `u…` and `v…`, text and value of each measure, and `refused`, the position if one has no value."""
    paths, found, wrong = _paths(asked), [], []
    for at, one in enumerate(asked.aggregates):
        place = paths.index(one.path) if one.path else 0
        found.append(f"{_of(one, f't{place:d}' if one.path else '1')} AS u{at:d}")
        if one.takes != ANY:
            value = _VALUES[one.takes].format(**_words(how, one, place))
            found.append(f"{_of(one, value)} AS v{at:d}")
            wrong.append(_WITHOUT_VALUE.format(text=_of(one, f"t{place:d}"), value=_of(one, value)))
    judged = _REFUSED.format(wrong=" OR ".join(wrong)) if wrong else "NULL"
    return ", ".join([*found, f"{judged} AS refused"])


_WITHOUT_VALUE = "({text} IS NOT NULL AND {value} IS NULL)"
_REFUSED = "CASE WHEN {wrong} THEN position END"
_VALUES = {
    INTEGER: "CASE WHEN {is_whole} THEN CAST({t} AS BIGINT) END",
    DECIMAL: "CASE WHEN {is_number} THEN CASE WHEN {part} <= {places} AND {digits} <= 15 THEN"
    " CAST(replace({t}, '.', '') || substr('0000', 1, {places} - {part}) AS BIGINT) END END",
    TEXT: "CASE WHEN {is_text} THEN {s} END",
}


def _words(how: PayloadSyntax, one: Aggregate, place: int) -> dict[str, str]:
    text = f"t{place:d}"
    part = f"(CASE {how.find.format(t=text)} WHEN 0 THEN 0 ELSE length({text}) - {how.find.format(t=text)} END)"
    return {
        "t": text,
        "s": f"s{place:d}",
        "is_whole": how.has_only.format(t=text, characters="-0-9"),
        "is_number": how.has_only.format(t=text, characters="-.0-9"),
        "is_text": how.is_text.format(t=text),
        "part": part,
        "places": f"{one.places:d}",
        "digits": f"length(replace(replace({text}, '-', ''), '.', '')) - {part} + {one.places:d}",
    }


def _paths(asked: SummaryQuery) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(one.path for one in asked.aggregates if one.path))


def _key(how: PayloadSyntax, key: str) -> str:
    if key in (BY_STREAM, BY_KIND):
        return "stream" if key == BY_STREAM else how.kind
    return how.json.format(p=how.path(key.removeprefix(BY_PAYLOAD).split(".")))


def _window(window_ns: int) -> str:
    return f"time / {window_ns:d}" if window_ns else "0"


def _of(one: Aggregate, text: str) -> str:
    """The value, unless the measure is for other types of events. Type names need no escaping."""
    if not one.of:
        return text
    named = ", ".join(f"'{type_}'" for type_ in one.of)
    return f"CASE WHEN type IN ({named}) THEN {text} END"


def filled(query: str, asked: SummaryQuery, extracting: PayloadSyntax, collecting: AggregateSyntax) -> str:
    """A statement with its four placeholders filled. A comma follows its own columns."""
    for place, text in {
        "/* the aggregates */": "".join(f", {sql}" for sql in collected(collecting, asked)),
        "/* the ranks */": "".join(f", {sql}" for sql in ranked(asked)),
        "/* the values */": values(extracting, asked),
        "/* the fields */": fields(extracting, asked),
    }.items():
        query = query.replace(place, text)
    return query


# --- from values to aggregates ---------------------------------------------------------------------------------------


def ranked(asked: SummaryQuery) -> list[str]:
    """The columns `r…`: the rank of a value; the largest is 1."""
    sized = [at for at, one in enumerate(asked.aggregates) if one.size]
    order = "row_number() OVER (PARTITION BY key, win ORDER BY {v} DESC NULLS LAST)"
    return [f"{order.format(v=f'v{at:d}')} AS r{at:d}" for at in sized]


def collected(how: AggregateSyntax, asked: SummaryQuery) -> list[str]:
    """The aggregates."""
    return [_column(how, one, sql, at) for at, one in enumerate(asked.aggregates) for sql in one.sql]


def _column(how: AggregateSyntax, one: Aggregate, sql: str, at: int) -> str:
    text, value = f"u{at:d}", f"v{at:d}"
    return sql.format(
        t=text,
        v=value,
        s=how.in_order.format(value),
        latest=how.latest.format(text),
        collect_distinct=how.distinct.format(text),
        collect_ranked=how.ranked.format(value, top=f"r{at:d} <= {one.size:d}"),
    )
