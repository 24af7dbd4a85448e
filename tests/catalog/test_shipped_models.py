"""The models that come with tallystick."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

import jsonschema
import pytest

import tallystick
from tallystick import Catalog, NewEvent, errors
from tallystick.event import canonical, schema, shipped

SHA = "ab" * 32
GOOD: dict[str, dict[str, Any]] = {
    "command_event": {"agent_id": "a", "tool_name": "Read", "tool_input": {"p": 1}, "validation_status": "pending"},
    "spec_loaded": {"spec_id": "s", "spec_version": "1", "spec_sha256": SHA, "spec": {"rules": []}},
    "evidence_submitted": {"evidence_id": "e", "kind": "log", "content_sha256": SHA, "content": {"lines": 3}},
    "evaluation_completed": {
        "evaluation_id": "v",
        "spec_id": "s",
        "evidence_ids": ["e"],
        "outcome": "passed",
        "score": 1,
    },
    "transcript_exported": {"transcript_id": "t", "format": "json", "transcript_sha256": SHA, "last_seq": 4},
}
BAD: list[tuple[str, dict[str, Any]]] = [
    ("command_event", {"agent_id": ""}),
    ("command_event", {"agent_id": "a" * 129}),
    ("command_event", {"tool_name": "1up"}),
    ("command_event", {"tool_name": "Read\n"}),
    ("command_event", {"tool_input": []}),
    ("command_event", {"validation_status": "maybe"}),
    ("spec_loaded", {"spec_sha256": SHA.upper()}),
    ("spec_loaded", {"spec": "text"}),
    ("evidence_submitted", {"content": "text"}),
    ("evaluation_completed", {"outcome": "unsure"}),
    ("evaluation_completed", {"score": 1.5}),
    ("evaluation_completed", {"evidence_ids": "e"}),
    ("transcript_exported", {"last_seq": -1}),
]


def test_the_shipped_types_are_these_five() -> None:
    """LH-02: CommandEvent and the four REACH event types are shipped, each in version 1."""
    assert {type_: entry.current for type_, entry in shipped.catalog.types.items()} == dict.fromkeys(GOOD, 1)
    shipped.catalog.check()


def test_command_event_is_the_seed_model() -> None:
    """LH-02: the four fields of CommandEvent, with their types and constraints."""
    fields = shipped.CommandEvent.model_fields
    assert list(fields) == ["agent_id", "tool_name", "tool_input", "validation_status"]
    assert all(field.is_required() for field in fields.values())
    status = fields["validation_status"].annotation
    assert get_origin(status) is Literal
    assert get_args(status) == ("pending", "approved", "rejected")
    properties = shipped.CommandEvent.model_json_schema()["properties"]
    assert (properties["agent_id"]["minLength"], properties["agent_id"]["maxLength"]) == (1, 128)
    assert properties["tool_name"]["pattern"] == "^[A-Za-z_][A-Za-z0-9_]*$"
    assert properties["tool_input"] == {"additionalProperties": True, "title": "Tool Input", "type": "object"}


@pytest.mark.parametrize("type_", GOOD)
def test_a_shipped_event_can_be_appended(type_: str) -> None:
    """LH-02: a good payload of each shipped type is taken, also by a catalog that includes the shipped one."""
    catalog = Catalog(closed=True)
    catalog.include(shipped.catalog)
    with tallystick.open("memory:", catalog=catalog) as store:
        store.append("run/1", NewEvent(type_, GOOD[type_]))
        assert store.read_stream("run/1")[0].data == GOOD[type_]


@pytest.mark.parametrize(("type_", "change"), BAD)
def test_a_payload_outside_the_model_is_refused(type_: str, change: dict[str, Any]) -> None:
    """LH-02: every constraint of the shipped models holds, and names the field that broke it."""
    (field,) = change
    with pytest.raises(errors.SchemaViolation, match=f"/{field}"):
        shipped.catalog.validate(type_, 1, canonical.encode(GOOD[type_] | change))


@pytest.mark.parametrize(
    ("type_", "field"),
    [
        ("spec_loaded", "spec_id"),
        ("spec_loaded", "spec_version"),
        ("evidence_submitted", "evidence_id"),
        ("evaluation_completed", "evaluation_id"),
        ("transcript_exported", "transcript_id"),
    ],
)
def test_a_name_has_up_to_200_characters(type_: str, field: str) -> None:
    """LH-02: names of the REACH events are texts of 1 to 200 characters."""
    for size in (1, 200):
        shipped.catalog.validate(type_, 1, canonical.encode(GOOD[type_] | {field: "n" * size}))
    for size in (0, 201):
        with pytest.raises(errors.SchemaViolation, match=f"/{field}"):
            shipped.catalog.validate(type_, 1, canonical.encode(GOOD[type_] | {field: "n" * size}))


@pytest.mark.parametrize("type_", GOOD)
def test_every_field_without_a_default_is_required(type_: str) -> None:
    """LH-02: leaving out a required field is refused by the model and by the exported schema alike."""
    exported = schema.export(shipped.catalog)["types"][type_]["versions"]["1"]
    jsonschema.validate(GOOD[type_], exported)
    assert exported["required"]
    for field in exported["required"]:
        less = {key: value for key, value in GOOD[type_].items() if key != field}
        with pytest.raises(errors.SchemaViolation):
            shipped.catalog.validate(type_, 1, canonical.encode(less))
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(less, exported)
