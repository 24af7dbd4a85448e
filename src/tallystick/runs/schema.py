"""The JSON Schemas of a line of `events.ndjson` and of `snapshot.json`: generated from the classes, shipped as files.

`python -m tallystick.runs` writes the files; a test fails if they differ from the classes. The classes make the fast
check on every write and read. If they object, jsonschema decides and names the place.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event.model import Event
from tallystick.runs import facts
from tallystick.runs.state import RunState

NAMES = ("event", "snapshot")
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_HEX = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_INT64 = {"type": "integer", "minimum": 0, "maximum": (1 << 63) - 1}


def made(name: str) -> dict[str, Any]:
    """Generate a schema from the classes."""
    return _event() if name == "event" else _snapshot()


def _event() -> dict[str, Any]:
    _, components = msgspec.json.schema_components(facts.FACTS, ref_template="#/$defs/{name}")
    known = [
        {
            "if": {"properties": {"type": {"const": fact.TYPE}}, "required": ["type"]},
            "then": {
                "properties": {
                    "payload": {"anyOf": [{"$ref": f"#/$defs/{fact.__name__}"}, {"type": "null"}]},
                    "meta": {"required": ["span_id", "trace_id"]},
                }
            },
        }
        for fact in facts.FACTS
    ]
    properties = {
        "checksum": _HEX,
        "commit": {"type": "array", "items": _INT64 | {"minimum": 1}, "minItems": 2, "maxItems": 2},
        "id": {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
        "link": _HEX,
        "meta": {
            "type": "object",
            "properties": {
                "trace_id": {"type": "string", "minLength": 1},
                "span_id": {"type": "string", "minLength": 1},
            },
        },
        "payload": {"type": ["object", "null"]},
        "recorded": _INT64,
        "seq": _INT64 | {"minimum": 1},
        "signature": {"type": ["string", "null"], "pattern": "^[0-9a-f]{128}$"},
        "stream": {"type": "string", "pattern": "^(run/[a-z0-9][a-z0-9_.:@=+-]{0,190}|tally\\.[^/]+/.+)$"},
        "time": _INT64,
        "type": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_.-]{0,127}$"},
        "version": {"type": "integer", "minimum": 1},
        "whole": _HEX,
    }
    return {
        "$schema": DIALECT,
        "$id": "event.schema.json",
        "title": "A line of events.ndjson",
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
        "allOf": known,
        "$defs": components,
    }


def _snapshot() -> dict[str, Any]:
    (root,), components = msgspec.json.schema_components([RunState], ref_template="#/$defs/{name}")
    state = components.pop(root["$ref"].rpartition("/")[2])
    state["required"] = sorted(state["properties"])
    state["additionalProperties"] = False
    for component in components.values():
        component["required"] = sorted(component["properties"])
        component["additionalProperties"] = False
    return {
        "$schema": DIALECT,
        "$id": "snapshot.schema.json",
        **state,
        "title": "snapshot.json of a run",
        "$defs": components,
    }


def text(name: str) -> str:
    """A shipped schema, as JSON text."""
    return resources.files(__package__).joinpath("schemas", f"{name}.schema.json").read_text("utf-8")


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(text(name)))


def check(name: str, document: Any) -> None:
    """Check a document against a shipped schema. The error names the first place where it does not fit."""
    for problem in _validator(name).iter_errors(document):
        pointer = "".join(f"/{step}" for step in problem.absolute_path)
        raise errors.SchemaViolation(
            type=f"{name}.schema.json", version=1, pointer=pointer, reason=f"{pointer}: {problem.message}"[:500]
        )


def line(event: Event) -> dict[str, Any]:
    """An event of any engine in the form of a line of `events.ndjson`. Fields of the file are filled in."""
    return {
        "checksum": event.checksum.hex(),
        "commit": [event.seq, event.seq],
        "id": str(event.uuid),
        "link": event.link.hex(),
        "meta": event.metadata,
        "payload": None if event.payload is None else event.data,
        "recorded": 0,
        "seq": event.seq,
        "signature": None if event.signature is None else event.signature.hex(),
        "stream": event.stream,
        "time": event.time,
        "type": event.type,
        "version": event.version,
        "whole": event.link.hex(),
    }


def write(directory: Path) -> None:
    """Generate and write both schemas."""
    for name in NAMES:
        content = json.dumps(made(name), indent=1, sort_keys=True, ensure_ascii=False)
        (directory / f"{name}.schema.json").write_text(content + "\n", "utf-8")
