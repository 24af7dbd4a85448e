"""The whole catalog as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel, Field

from tallystick import Catalog, errors
from tallystick.event import schema, shipped


class Line(BaseModel):
    """A line of an order."""

    sku: str
    count: int = Field(ge=1)


class One(BaseModel):
    """Version 1."""

    lines: list[Line]


class Two(One):
    """Version 2."""

    note: str = ""


def made(*, backwards: bool = False) -> Catalog:
    """A catalog with two versions of a type and one more type."""
    catalog = Catalog()
    steps: list[Callable[[], Any]] = [
        lambda: catalog.register("order.placed", One),
        lambda: catalog.register("order.placed", Two, version=2),
        lambda: catalog.upcaster("order.placed", from_version=1)(dict),
        lambda: catalog.register("a.line", Line),
    ]
    for step in reversed(steps) if backwards else steps:
        step()
    return catalog


def test_the_document_holds_every_version_of_every_type() -> None:
    """LH-02: types, versions, the current one and the upcasters stand in one document."""
    document = schema.export(made())
    assert document["tallystick_catalog"] == 1
    assert list(document["types"]) == ["a.line", "order.placed"]
    placed = document["types"]["order.placed"]
    assert (placed["current"], placed["upcasters"], list(placed["versions"])) == (2, [1], ["1", "2"])
    schema.require_document(document)


def test_each_schema_is_valid_and_judges_like_its_model() -> None:
    """LH-02: an external consumer can validate with the exported schema alone."""
    document = schema.export(made())
    for entry in (document | {"types": document["types"] | schema.export(shipped.catalog)["types"]})["types"].values():
        for exported in entry["versions"].values():
            jsonschema.Draft202012Validator.check_schema(exported)
    one = document["types"]["order.placed"]["versions"]["1"]
    jsonschema.validate({"lines": [{"sku": "a", "count": 1}]}, one)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"lines": [{"sku": "a", "count": 0}]}, one)


def test_the_text_does_not_depend_on_the_order_of_registration() -> None:
    """LH-02: the same catalog gives the same bytes, so that a diff shows changes only."""
    assert schema.export_text(made()) == schema.export_text(made(backwards=True))
    assert json.loads(schema.export_text(made())) == schema.export(made())


def test_a_model_without_a_json_schema_is_named() -> None:
    """LH-02: what cannot be exported is an error that says which type."""

    class Odd(BaseModel):
        call: Callable[[], int]

    catalog = Catalog()
    catalog.register("odd.one", Odd)
    with pytest.raises(errors.SchemaIncompatible, match=r"odd\.one: version 1 has no JSON Schema"):
        schema.export(catalog)


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"tallystick_catalog": 2, "types": {}},
        {"tallystick_catalog": 1},
        {"tallystick_catalog": 1, "types": {"t": {"current": 1, "versions": {"one": {}}, "upcasters": []}}},
        {"tallystick_catalog": 1, "types": {"t": {"current": "1", "versions": {}, "upcasters": []}}},
        {"tallystick_catalog": 1, "types": {"t": {"current": 1, "versions": {}}}},
    ],
)
def test_what_is_no_export_is_refused(document: Any) -> None:
    """LH-01: a file that is something else cannot be checked, and says so."""
    with pytest.raises(errors.Unavailable):
        schema.require_document(document)
