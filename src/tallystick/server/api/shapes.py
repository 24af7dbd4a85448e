"""The shapes of bodies for the OpenAPI document. They are written down here, because the fast paths parse bytes."""

from __future__ import annotations

from typing import Any

from tallystick.event import limits, names
from tallystick.server.http import problems

_POSITION = {"type": "integer", "minimum": 0, "maximum": limits.INT_MAX}
_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_OBJECT = {"type": "object", "additionalProperties": True}


def _maybe(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _exactly(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


EVENT_BODY = _exactly(
    ["type", "payload"],
    type={"type": "string", "pattern": f"^{names.TYPE.pattern}$"},
    payload=_OBJECT,
    version=_maybe({"type": "integer", "minimum": 1, "maximum": names.VERSION_MAX}),
    meta=_maybe(_OBJECT),
    id=_maybe({"type": "string", "format": "uuid"}),
    time=_maybe(_POSITION | {"description": "Nanoseconds since 1970; left out, it is now."}),
)
EXPECTED = {
    "anyOf": [_POSITION, {"enum": ["any", "none"]}, {"type": "null"}],
    "description": "Where the stream must be: a seq, none (it is new) or any.",
}
_STREAM = {"type": "string", "pattern": f"^{names.KIND.pattern}/{names.NAME.pattern}$"}
_EVENTS = {"type": "array", "items": EVENT_BODY, "minItems": 1}
STREAM_BODY = _exactly(["events"], events=_EVENTS, expected=EXPECTED)
PARTS_BODY = _exactly(
    ["parts"],
    parts={
        "type": "array",
        "minItems": 1,
        "items": _exactly(["stream", "events"], stream=_STREAM, events=_EVENTS, expected=EXPECTED),
    },
)

APPENDED = {
    "type": "object",
    "properties": {
        "stream": {"type": "string"},
        "first_seq": _POSITION,
        "last_seq": _POSITION,
        "first_position": _POSITION,
        "last_position": _POSITION,
        "link": _HASH,
        "stored": {"type": "integer", "description": "How many of them were there already, by their ids."},
        "pruned": {"type": "boolean", "description": "They were pruned since; only the seqs are known."},
    },
    "required": ["stream", "first_seq", "last_seq"],
}
ALL_APPENDED = {
    "type": "object",
    "properties": {"parts": {"type": "array", "items": APPENDED}},
    "required": ["parts"],
}
EVENT = {
    "type": "object",
    "properties": {
        "position": _POSITION,
        "stream": {"type": "string"},
        "seq": _POSITION,
        "type": {"type": "string"},
        "version": {"type": "integer"},
        "id": {"type": "string", "format": "uuid"},
        "time": {"type": "integer"},
        "payload": _maybe(_OBJECT),
        "meta": _OBJECT,
        "checksum": _HASH,
        "link": _HASH,
        "signature": _maybe({"type": "string"}),
    },
    "required": ["position", "stream", "seq", "type", "version", "id", "time", "payload", "meta", "checksum", "link"],
}
_THROUGH = _POSITION | {"description": "How far was looked: go on after this."}
EVENTS = {
    "type": "object",
    "properties": {
        "events": {"type": "array", "items": EVENT},
        "through": _THROUGH,
        "cursor": {"type": "string", "description": "Go on with `after` set to this: it fits this history alone."},
        "holes": {"type": "array", "items": _OBJECT},
    },
    "required": ["events", "through"],
}
STREAM = {
    "type": "object",
    "properties": {
        "stream": {"type": "string"},
        "seq": _POSITION,
        "org": _maybe({"type": "string"}),
        "link": _HASH,
        "pruned_through": _POSITION,
    },
    "required": ["stream", "seq", "org", "link"],
}
STREAMS = {
    "type": "object",
    "properties": {
        "streams": {"type": "array", "items": STREAM},
        "next": _maybe({"type": "string", "description": "Go on after this; null at the end."}),
    },
    "required": ["streams", "next"],
}
STATE = {
    "type": "object",
    "properties": {
        "stream": {"type": "string"},
        "seq": _POSITION,
        "position": _POSITION,
        "link": _HASH,
        "reducer": {"type": "string"},
        "reducer_version": {"type": "integer"},
        "state": {},
        "state_hash": _HASH,
        "events_folded": {"type": "integer"},
        "snapshot": {"type": ["string", "null"]},
        "degraded": {"type": "boolean"},
        "damage": {"type": "string"},
    },
    "required": ["stream", "seq", "reducer", "state", "state_hash"],
}
ANY_OBJECT: dict[str, Any] = _OBJECT
PROBLEM = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "advice": {"type": "string"},
        "values": _OBJECT,
    },
    "required": ["type", "title", "status", "detail", "code"],
}
IDEMPOTENT: dict[str, Any] = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "minLength": 1, "maxLength": names.LABEL_MAX, "pattern": "^[!-~]+$"},
            "description": "The same request under the same key takes effect once; another one is a 409.",
        }
    ]
}


def body(schema: dict[str, Any]) -> dict[str, Any]:
    """A body of this shape, for `openapi_extra`."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def answers(status: int, schema: dict[str, Any], *refusals: int, media: str = "application/json") -> dict[Any, Any]:
    """What a route answers, for `responses`: this, or a problem."""
    problem = {"content": {problems.MEDIA_TYPE: {"schema": PROBLEM}}, "description": "refused"}
    found: dict[int | str, Any] = dict.fromkeys((*refusals, 421), problem)
    found[status] = {"content": {media: {"schema": schema}}, "description": "done"}
    return found
