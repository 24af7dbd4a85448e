"""What a query needs of a table, read from Spark's plan of it: positions, types, streams and columns.

Spark 4.3 can pass conditions to a Python source only in a way that leaks them into later queries. So a query is first
planned over a table of no events. What the plan says of every use of that table becomes options of the real table, and
then the query runs over that one. The conditions stay in the query, so one that is not understood here costs nothing
but time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tallystick import errors
from tallystick.event import limits
from tallystick.pipeline.source.columns import COLUMNS, DDL, Batches
from tallystick.pipeline.source.data_source import NAME
from tallystick.store.selection import Selection

_LEAF, _SOURCE = "MapInArrow", "DataSourceV2ScanRelation"
_PASSING = frozenset({"Filter", "Project"})  # the nodes that may be between a condition and its table
_TURNED = {
    "GreaterThan": "LessThan",
    "LessThan": "GreaterThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "EqualTo": "EqualTo",
}

Names = frozenset[str] | None  # None: all


class QueryNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What a query may need: positions after `after` up to `until` (None: the end), types, streams and columns."""

    after: int = 0
    until: int | None = None
    types: Names = None
    streams: Names = None
    columns: frozenset[str] = frozenset(COLUMNS)

    def and_(self, other: QueryNeeds) -> QueryNeeds:
        """The needs of a query with both conditions."""
        untils = [until for until in (self.until, other.until) if until is not None]
        return QueryNeeds(
            after=max(self.after, other.after),
            until=min(untils, default=None),
            types=_common(self.types, other.types),
            streams=_common(self.streams, other.streams),
        )

    def or_(self, other: QueryNeeds) -> QueryNeeds:
        """The needs of a query with either condition."""
        return QueryNeeds(
            after=min(self.after, other.after),
            until=None if self.until is None or other.until is None else max(self.until, other.until),
            types=None if self.types is None or other.types is None else self.types | other.types,
            streams=None if self.streams is None or other.streams is None else self.streams | other.streams,
        )


def empty_events(spark: SparkSession, *more: str) -> DataFrame:
    """A table without events, which Spark cannot know to be empty; with more columns, such as `data string`."""

    def run(batches: Batches) -> Batches:
        yield from ()

    return spark.range(1).mapInArrow(run, ", ".join([DDL, *more]))


def query_needs(query: DataFrame) -> QueryNeeds | None:
    """What a query over `empty_events` needs; None if it does not use that table. Not for sessions of Spark Connect."""
    plan = query._jdf.queryExecution().optimizedPlan()
    uses: list[tuple[Any, list[Any]]] = []
    used = set(_ids(plan.outputSet()))
    for node, conditions in _nodes(plan, []):
        if node.nodeName() == _LEAF:
            uses.append((node, conditions))
        else:
            used.update(_ids(node.references()))
    if not uses:
        return None
    found = _any([_bound_by(leaf, conditions) for leaf, conditions in uses])
    columns = {name for leaf, _ in uses for id_, name in _names(leaf).items() if id_ in used}
    return msgspec.structs.replace(found, columns=frozenset(columns))


def hints(table: DataFrame) -> list[str]:
    """Which conditions of a table could be options of its source, which does not see conditions.

    One line for each use of the format `tallystick` that would read less.
    """
    plan = table._jdf.queryExecution().optimizedPlan()
    sources = [(node, its) for node, its in _nodes(plan, []) if node.nodeName() == _SOURCE]
    return [
        hint
        for node, conditions in sources
        if node.relation().table().name() == NAME and (hint := _hint(node, _bound_by(node, conditions)))
    ]


def _hint(source: Any, asked: QueryNeeds) -> str | None:
    given = {name.lower(): value for name, value in dict(source.relation().options().asCaseSensitiveMap()).items()}
    after, until = int(given.get("after", 0)), given.get("until")
    wanted: dict[str, str] = {}
    if asked.after > after:
        wanted["after"] = str(asked.after)
    if asked.until is not None and (until is None or asked.until < int(until)):
        wanted["until"] = str(asked.until)
    for option, names in (("type", asked.types), ("stream", asked.streams)):
        if names is not None and not given.get(option):
            wanted[option] = ",".join(sorted(names))
    if not wanted:
        return None
    by_call = "".join(f'.option("{name}", "{value}")' for name, value in wanted.items())
    in_sql = ", ".join(f"{name} = '{value}'" for name, value in wanted.items())
    return f"the conditions see every event of the log; to read fewer, say {by_call}, or in SQL: with ({in_sql})"


def _bound_by(leaf: Any, conditions: list[Any]) -> QueryNeeds:
    """What all conditions directly above a table ask for."""
    found, names = QueryNeeds(), _names(leaf)
    for condition in conditions:
        found = found.and_(_asked(condition, names))
    return found


def _names(leaf: Any) -> dict[int, str]:
    return {attribute.exprId().id(): attribute.name() for attribute in _each(leaf.output())}


def _nodes(node: Any, conditions: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Every node of a plan, each with the conditions directly above it."""
    yield node, conditions
    kind = node.nodeName()
    if kind == _LEAF:
        return
    below = conditions if kind in _PASSING else []
    if kind == "Filter":
        below = [*below, node.condition()]
    for child in _each(node.children()):
        yield from _nodes(child, below)
    for plan in _each(node.subqueries()):
        yield from _nodes(plan, [])


def _asked(condition: Any, names: dict[int, str]) -> QueryNeeds:
    """What a condition asks for; everything if its form is not known here."""
    kind = condition.getClass().getSimpleName()
    if kind == "And":
        return _asked(condition.left(), names).and_(_asked(condition.right(), names))
    if kind in ("In", "InSet"):
        found, values = (
            (condition.value(), list(map(_literal, _each(condition.list()))))
            if kind == "In"
            else (condition.child(), list(map(_plain, _each(condition.hset()))))
        )
        each = [_compared("EqualTo", _name(found, names), value) for value in values]
        return _any(each)
    if kind not in _TURNED:
        return QueryNeeds()
    left, right = condition.left(), condition.right()
    name = _name(left, names)
    if name is None:
        return _compared(_TURNED[kind], _name(right, names), _literal(left))
    return _compared(kind, name, _literal(right))


def _any(each: list[QueryNeeds]) -> QueryNeeds:
    found = each[0] if each else QueryNeeds()
    for one in each[1:]:
        found = found.or_(one)
    return found


def _compared(kind: str, name: str | None, value: Any) -> QueryNeeds:
    """What the comparison `name kind value` asks for."""
    if name == "position" and type(value) is int:
        return QueryNeeds(**{key: of(value) for key, of in _BOUNDS[kind].items()})
    if name in ("type", "stream") and kind == "EqualTo" and type(value) is str and _is_name(name, value):
        names = frozenset({value})
        return QueryNeeds(types=names) if name == "type" else QueryNeeds(streams=names)
    return QueryNeeds()


def _bound(value: int) -> int:
    return min(max(value, 0), limits.INT_MAX)


_BOUNDS: dict[str, dict[str, Callable[[int], Any]]] = {
    "GreaterThan": {"after": _bound},
    "GreaterThanOrEqual": {"after": lambda value: _bound(value - 1)},
    "LessThan": {"until": lambda value: _bound(value - 1)},
    "LessThanOrEqual": {"until": _bound},
    "EqualTo": {"after": lambda value: _bound(value - 1), "until": _bound},
}


def _is_name(name: str, value: str) -> bool:
    """Whether an event could have this type or stream. Other texts are left to Spark, which finds nothing."""
    try:
        Selection(types=frozenset({value})) if name == "type" else Selection(streams=frozenset({value}))
    except errors.TallyError:
        return False
    return "," not in value


def _common(one: Names, other: Names) -> Names:
    if one is None or other is None:
        return one if other is None else other
    return one & other or None  # an empty set would select everything: left to Spark


def _name(expression: Any, names: dict[int, str]) -> str | None:
    if expression.getClass().getSimpleName() != "AttributeReference":
        return None
    return names.get(expression.exprId().id())


def _literal(expression: Any) -> Any:
    return _plain(expression.value()) if expression.getClass().getSimpleName() == "Literal" else None


def _plain(value: Any) -> Any:
    """A value of Spark as a value of Python; Spark has its own class for texts."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else value.toString()


def _ids(attributes: Any) -> Iterator[int]:
    return (attribute.exprId().id() for attribute in _each(attributes.toSeq()))


def _each(found: Any) -> Iterator[Any]:
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()
