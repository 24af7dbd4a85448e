"""A catalog as one JSON document: the JSON Schema of every version of every type.

`{"tallystick_catalog": 1, "types": {TYPE: {"current": N, "versions": {"1": SCHEMA, …}, "upcasters": [1, …]}}}`, with
keys sorted, so that the same catalog gives the same bytes. `upcasters` lists the versions that have an upcaster.
"""

from __future__ import annotations

import json
from typing import Any

from tallystick import errors
from tallystick.event.catalog import Catalog, EventType

MARK = "tallystick_catalog"
FORMAT = 1


def export(catalog: Catalog) -> dict[str, Any]:
    """The catalog as a document."""
    types = {type_: _type(type_, entry) for type_, entry in catalog.types.items()}
    document: dict[str, Any] = _ordered({MARK: FORMAT, "types": types})
    return document


def export_text(catalog: Catalog) -> str:
    """The catalog as the text of a file."""
    return json.dumps(export(catalog), ensure_ascii=False, indent=2) + "\n"


def require_document(document: Any, *, what: str = "the catalog") -> None:
    """Refuse a document that was not made by `export`, or was made by a newer version of it."""
    if not isinstance(document, dict) or MARK not in document:
        raise errors.NotLoadable(reference=what, reason=f"it was not made by `tally schema export`: it has no {MARK!r}")
    if document[MARK] != FORMAT:
        raise errors.NotLoadable(
            reference=what, reason=f"it has format {document[MARK]!r}, this version knows {FORMAT}"
        )
    types = document.get("types")
    if not isinstance(types, dict):
        raise errors.NotLoadable(reference=what, reason="it has no types")
    for type_, entry in types.items():
        if not _is_entry(entry):
            reason = f"{type_!r} must have a current version, versions with a schema each, and upcasters"
            raise errors.NotLoadable(reference=what, reason=reason)


def _type(type_: str, entry: EventType) -> dict[str, Any]:
    return {
        "current": entry.current,
        "versions": {str(version): _schema(type_, version, entry) for version in sorted(entry.models)},
        "upcasters": sorted(entry.upcasters),
    }


def _schema(type_: str, version: int, entry: EventType) -> dict[str, Any]:
    try:
        return entry.models[version].model_json_schema(mode="validation")
    except Exception as problem:  # pydantic's own, or that of a model's hook
        reason = f"version {version} has no JSON Schema: {problem}"
        raise errors.SchemaIncompatible(type=type_, reason=reason) from problem


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list) else value


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and type(entry.get("current")) is int
        and isinstance(versions := entry.get("versions"), dict)
        and all(version.isdecimal() and isinstance(schema, (dict, bool)) for version, schema in versions.items())
        and isinstance(upcasters := entry.get("upcasters"), list)
        and all(type(version) is int for version in upcasters)
    )
