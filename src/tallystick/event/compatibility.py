"""Whether a catalog may follow another: schemas only grow. Pure functions over two documents of `schema.export`.

A version that is in both must be the same, except for titles and descriptions. A new version is compared with the one
before it: every field stays, keeps its type and accepts the same values; new fields have a default. Every old version
has its upcasters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tallystick.event import canonical, schema

Schema: TypeAlias = "dict[str, Any]"

TYPE_REMOVED = "type-removed"
VERSION_REMOVED = "version-removed"
VERSION_BACK = "version-back"
UNBUMPED = "changed-without-version"
UPCASTER_MISSING = "upcaster-missing"
FIELD_REMOVED = "field-removed"
FIELD_REQUIRED = "field-required"
TYPE_CHANGED = "type-changed"
VALUE_REMOVED = "value-removed"
NARROWED = "narrowed"

_WORDS = frozenset({"title", "description", "examples", "$defs"})
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas"})
_IN_ORDER = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SETS = frozenset({"required", "enum", "type"})
_NATURE = ("format", "contentEncoding", "contentMediaType")
_LOWER = (("minimum", "exclusiveMinimum"), ("minLength", ""), ("minItems", ""), ("minProperties", ""))
_UPPER = (("maximum", "exclusiveMaximum"), ("maxLength", ""), ("maxItems", ""), ("maxProperties", ""))
_OF_THE_UNION = frozenset({"anyOf", "oneOf", "default", "discriminator"})
_EXACT = ("pattern", "multipleOf", "uniqueItems", "not", "if", "then", "else", "contains", "dependentRequired")


_LIFTED = (
    "; the upcaster converts old events, but readers of the version before cannot read new ones: keep the field, or"
    " make it a new type"
)


class Incompatibility(msgspec.Struct, frozen=True):
    """One change that breaks old events or their readers. `path` is a JSON pointer into the payload."""

    type: str
    version: int
    path: str
    rule: str
    message: str


class SchemaLoss(NamedTuple):
    """Something that a schema no longer has or accepts."""

    path: str
    rule: str
    message: str

    def below(self, place: str) -> SchemaLoss:
        return SchemaLoss(place + self.path, self.rule, self.message)


def check(old: Any, new: Any) -> list[Incompatibility]:
    """The reasons why the catalog `new` must not follow `old`; empty if there are none."""
    schema.require_document(old, what="the old catalog")
    schema.require_document(new, what="the new catalog")
    return [
        finding
        for type_ in sorted({*old["types"], *new["types"]})
        for finding in _check_type(type_, old["types"].get(type_), new["types"].get(type_))
    ]


def _check_type(type_: str, old: Any, new: Any) -> Iterator[Incompatibility]:
    if new is None:
        yield Incompatibility(type_, old["current"], "", TYPE_REMOVED, "the type is gone, its events are not")
        return
    was, now = _versions(old), _versions(new)
    if old is not None and new["current"] < old["current"]:
        message = f"the current version went back from {old['current']} to {new['current']}"
        yield Incompatibility(type_, new["current"], "", VERSION_BACK, message)
    for version in sorted(was.keys() - now.keys()):
        yield Incompatibility(type_, version, "", VERSION_REMOVED, f"version {version} is gone, its events are not")
    for version, loss in _check_versions(was, now):
        lifted = version - 1 in new["upcasters"] and loss.rule != UNBUMPED
        yield Incompatibility(type_, version, loss.path, loss.rule, loss.message + (_LIFTED if lifted else ""))
    known = {*was, *now, *new["upcasters"], *(old["upcasters"] if old else ())}
    for version in range(min(known, default=1), new["current"]):
        if version not in new["upcasters"]:
            message = f"no upcaster leads from version {version} to {version + 1}"
            yield Incompatibility(type_, version, "", UPCASTER_MISSING, message)


def _check_versions(was: dict[int, Schema], now: dict[int, Schema]) -> Iterator[tuple[int, SchemaLoss]]:
    every = was | now
    previous: Schema | None = None
    for version in sorted(every):
        before = was.get(version, previous)
        if version in now and before is not None:
            yield from ((version, loss) for loss in SchemaGrowth(before, now[version]).losses())
        if version in now and version in was:
            place = SchemaDifference(was[version], now[version]).first()
            if place is not None:
                message = f"version {version} is not what it was: a structural change needs a new version"
                yield version, SchemaLoss(place, UNBUMPED, message)
        previous = every[version]


def _versions(entry: Any) -> dict[int, Schema]:
    return {} if entry is None else {int(version): found for version, found in entry["versions"].items()}


# --- reading a schema ------------------------------------------------------------------------------------------------


def _resolved(root: Any, node: Any) -> Schema:
    """A schema with its references followed and its `allOf` merged. True and False become schemas too."""
    for _ in range(100):  # a reference to itself would never end
        if isinstance(node, bool):
            return {} if node else {"type": "nothing"}
        if "$ref" in node:
            rest = {key: value for key, value in node.items() if key != "$ref"}
            target = _target(root, node["$ref"])
            node = target | rest if isinstance(target, dict) else target
        elif "allOf" in node:
            rest = {key: value for key, value in node.items() if key != "allOf"}
            for part in node["allOf"]:
                rest = _resolved(root, part) | rest
            node = rest
        else:
            break
    return {key: value for key, value in node.items() if key not in _WORDS}


def _target(root: Any, reference: str) -> Any:
    found = root
    for step in reference.removeprefix("#/").split("/") if reference.startswith("#/") else ():
        step = step.replace("~1", "/").replace("~0", "~")
        found = found.get(step, {}) if isinstance(found, dict) else {}
    return {key: value for key, value in found.items() if key != "$defs"} if found is root else found


def _alternatives(root: Any, node: Any) -> list[Schema]:
    """The schemas of which a value matches one: the branches of a union, one for each type."""
    found = _resolved(root, node)
    branches = found.get("anyOf", found.get("oneOf"))
    if branches is not None:
        rest = {key: value for key, value in found.items() if key not in _OF_THE_UNION}
        return [rest | alternative for branch in branches for alternative in _alternatives(root, branch)]
    if isinstance(found.get("type"), list):
        return [found | {"type": kind} for kind in found["type"]]
    return [found]


def _kinds(node: Schema) -> set[str]:
    if "type" in node:
        return {node["type"]}
    values = _values(node)
    return {"any"} if values is None else {_kind(value) for value in values.values()}


def _kind(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _values(node: Schema) -> dict[str, Any] | None:
    """The values that a schema lists, by their JSON; None if it lists none."""
    if "const" in node:
        return {_text(node["const"]): node["const"]}
    return {_text(value): value for value in node["enum"]} if "enum" in node else None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _step(name: str) -> str:
    return "/" + canonical.escape_pointer(name)


# --- what a schema lost ----------------------------------------------------------------------------------------------


class SchemaGrowth:
    """The comparison of a schema with its successor: what the old one has or accepts, and the new one does not."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old = old
        self._new = new
        self._seen: dict[tuple[int, int], list[SchemaLoss]] = {}

    def losses(self) -> list[SchemaLoss]:
        """Everything that was lost."""
        return self._at(self._old, self._new)

    def _at(self, old: Any, new: Any) -> list[SchemaLoss]:
        pair = (id(old), id(new))
        if pair not in self._seen:
            self._seen[pair] = []  # a schema that refers to itself counts as unchanged while it is compared
            self._seen[pair] = self._compare(_alternatives(self._old, old), _alternatives(self._new, new))
        return self._seen[pair]

    def _compare(self, olds: list[Schema], news: list[Schema]) -> list[SchemaLoss]:
        was = set().union(*map(_kinds, olds)) if olds else set()
        now = set().union(*map(_kinds, news)) if news else set()
        if was != now:
            message = f"the type was {' or '.join(sorted(was))}, and is {' or '.join(sorted(now))} now"
            return [SchemaLoss("", TYPE_CHANGED, message)]
        found: list[SchemaLoss] = []
        for old in olds:
            close = [new for new in news if _kinds(new) & _kinds(old)]
            found += sorted((self._alternative(old, new) for new in close), key=len)[0]
        return list(dict.fromkeys(found))

    def _alternative(self, old: Schema, new: Schema) -> list[SchemaLoss]:
        rules: tuple[Callable[[Schema, Schema], Iterator[SchemaLoss]], ...]
        rules = (_nature, _listed, _bounds, _exact, self._fields, self._others, self._items)
        return [loss for rule in rules for loss in rule(old, new)]

    def _fields(self, old: Schema, new: Schema) -> Iterator[SchemaLoss]:
        was, now = old.get("properties", {}), new.get("properties", {})
        for name in was:
            if name not in now:
                yield SchemaLoss(_step(name), FIELD_REMOVED, "the field is gone, but old events have it")
            else:
                yield from (loss.below(_step(name)) for loss in self._at(was[name], now[name]))
        for name in new.get("required", ()):
            if name not in old.get("required", ()):
                message = "the field was optional and is required now" if name in was else "the field has no default"
                yield SchemaLoss(_step(name), FIELD_REQUIRED, message)

    def _others(self, old: Schema, new: Schema) -> Iterator[SchemaLoss]:
        """Keys that are not named fields."""
        was, now = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if now is False and was is not False:
            yield SchemaLoss("", NARROWED, "further keys were taken and are not now")
        elif was is not False and (isinstance(was, dict) or isinstance(now, dict)):
            yield from (loss.below("/*") for loss in self._at(was, now))
        for keyword in ("patternProperties", "propertyNames", "dependentSchemas"):
            if keyword in new and _text(old.get(keyword)) != _text(new[keyword]):
                yield SchemaLoss("/*", NARROWED, f"{keyword} is not what it was")

    def _items(self, old: Schema, new: Schema) -> Iterator[SchemaLoss]:
        was, now = old.get("prefixItems", []), new.get("prefixItems", [])
        if len(was) != len(now):
            yield SchemaLoss("", TYPE_CHANGED, f"it had {len(was)} fixed items, and has {len(now)} now")
        for index, (before, after) in enumerate(zip(was, now, strict=False)):
            yield from (loss.below(f"/{index}") for loss in self._at(before, after))
        if "items" in old or "items" in new:
            before, after = old.get("items", True), new.get("items", True)
            yield from (loss.below("/*") for loss in self._at(before, after))


def _nature(old: Schema, new: Schema) -> Iterator[SchemaLoss]:
    for keyword in _NATURE:
        was, now = old.get(keyword), new.get(keyword)
        if was != now:
            yield SchemaLoss("", TYPE_CHANGED, f"{keyword} was {was or 'not given'}, and is {now or 'not given'} now")


def _listed(old: Schema, new: Schema) -> Iterator[SchemaLoss]:
    was, now = _values(old), _values(new)
    if now is None:
        return
    if was is None:
        yield SchemaLoss("", NARROWED, f"only {', '.join(now)} are taken now")
        return
    gone = [value for value in was if value not in now]
    if gone:
        yield SchemaLoss("", VALUE_REMOVED, f"{', '.join(gone)} was taken and is not now")


def _bounds(old: Schema, new: Schema) -> Iterator[SchemaLoss]:
    for pairs, sign in ((_LOWER, 1), (_UPPER, -1)):
        for including, excluding in pairs:
            was, now = (_bound(node, including, excluding, sign) for node in (old, new))
            if now is not None and (was is None or now > was):
                before = "not given" if was is None else sign * was[0]
                yield SchemaLoss("", NARROWED, f"{including} was {before}, and is {sign * now[0]} now")


def _bound(node: Schema, including: str, excluding: str, sign: int) -> tuple[float, bool] | None:
    """The tighter of two bounds: a higher pair accepts less, whatever the sign."""
    given = [(sign * node[keyword], keyword == excluding) for keyword in (including, excluding) if keyword in node]
    return max(given, default=None)


def _exact(old: Schema, new: Schema) -> Iterator[SchemaLoss]:
    for keyword in _EXACT:
        if new.get(keyword) not in (None, False) and _text(old.get(keyword)) != _text(new[keyword]):
            yield SchemaLoss("", NARROWED, f"{keyword} is not what it was")


# --- whether a schema changed at all ---------------------------------------------------------------------------------


class SchemaDifference:
    """The comparison of two schemas that should be equal, except for titles, descriptions, examples and inner names."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old = old
        self._new = new
        self._seen: set[tuple[int, int]] = set()

    def first(self) -> str | None:
        """The place of the first difference; None if there is none."""
        return next(self._at(self._old, self._new, ""), None)

    def _at(self, old: Any, new: Any, path: str) -> Iterator[str]:
        if (id(old), id(new)) in self._seen:
            return
        self._seen.add((id(old), id(new)))
        was, now = _resolved(self._old, old), _resolved(self._new, new)
        for keyword in sorted({*was, *now}):
            if keyword not in was or keyword not in now:
                yield path
            else:
                yield from self._keyword(keyword, was[keyword], now[keyword], path)

    def _keyword(self, keyword: str, was: Any, now: Any, path: str) -> Iterator[str]:
        if keyword in _BY_NAME:
            yield from (path + _step(name) for name in sorted(was.keys() ^ now.keys()))
            for name in sorted(was.keys() & now.keys()):
                yield from self._at(was[name], now[name], path + _step(name))
        elif keyword in _IN_ORDER and len(was) == len(now):
            for before, after in zip(was, now, strict=True):
                yield from self._at(before, after, path)
        elif keyword in ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else"):
            yield from self._at(was, now, path + "/*" if keyword in ("items", "additionalProperties") else path)
        elif _plain(keyword, was) != _plain(keyword, now):
            yield path


def _plain(keyword: str, value: Any) -> Any:
    """A keyword's value in a form in which equal means the same."""
    if keyword in _SETS and isinstance(value, list):
        return sorted(map(_text, value))
    if keyword == "discriminator" and isinstance(value, dict):  # its branches are compared in oneOf
        return _text([value.get("propertyName"), sorted(value.get("mapping", {}))])
    return _text(value)
