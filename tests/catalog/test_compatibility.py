"""Schemas only grow: what a catalog may change, and what it may not."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model

from tallystick import Catalog, errors
from tallystick.event import schema, shipped
from tallystick.event.compatibility import Incompatibility, check

MISSING = object()


def document(*models: type[BaseModel], upcasters: tuple[int, ...] | None = None) -> dict[str, Any]:
    """An exported catalog with one type, its versions from 1 on, and all upcasters unless told otherwise."""
    catalog = Catalog()
    for version, model in enumerate(models, 1):
        catalog.register("t", model, version=version)
    for version in range(1, len(models)) if upcasters is None else upcasters:
        catalog.upcaster("t", from_version=version)(dict)
    return schema.export(catalog)


def model(**fields: Any) -> type[BaseModel]:
    """A model called M with these fields: an annotation (required) or (annotation, default)."""
    parts = {name: field if isinstance(field, tuple) else (field, ...) for name, field in fields.items()}
    found: type[BaseModel] = create_model("M", **parts)  # type: ignore[call-overload]
    return found


def rules(findings: list[Incompatibility]) -> list[tuple[int, str, str]]:
    """Version, path and rule of each finding."""
    return [(finding.version, finding.path, finding.rule) for finding in findings]


def grown(old: Any, new: Any) -> list[tuple[str, str]]:
    """What is found when a field `f` has another annotation in a new version."""
    first, second = model(f=old), model(f=new)
    return [(path, rule) for _, path, rule in rules(check(document(first), document(first, second)))]


class Node(BaseModel):
    """A model that holds itself."""

    name: str
    children: list[Node] = Field(default_factory=list)


class NodeGrown(BaseModel):
    """The same, renamed and grown."""

    name: str
    children: list[NodeGrown] = Field(default_factory=list)
    note: str = ""


class NodeNarrowed(BaseModel):
    """The same, with another type for the name."""

    name: int
    children: list[NodeNarrowed] = Field(default_factory=list)


class Cat(BaseModel):
    """One branch of a union."""

    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    """Another branch."""

    kind: Literal["dog"]
    tricks: list[str] = Field(default_factory=list)


class Inner(BaseModel):
    """A nested model."""

    a: int
    b: str = ""


class InnerLess(BaseModel):
    """The nested model without a field."""

    a: int


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]

# --- what passes -----------------------------------------------------------------------------------------------------


def test_the_same_catalog_follows_itself() -> None:
    """LH-01: no change, no finding."""
    for same in (document(Node), document(model(f=Pet)), schema.export(shipped.catalog)):
        assert check(same, copy.deepcopy(same)) == []


def test_a_new_type_may_be_added() -> None:
    """LH-01: a catalog grows by types."""
    assert check({"tallystick_catalog": 1, "types": {}}, document(Node)) == []


@pytest.mark.parametrize("field", [(int, 0), (list[str], Field(default_factory=list)), (Inner | None, None)])
def test_a_field_with_a_default_may_be_added_in_a_new_version(field: Any) -> None:
    """LH-01: additive changes pass, with a version of their own."""
    first, second = model(a=int), model(a=int, b=field)
    assert check(document(first), document(first, second)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Literal["a", "b"], Literal["a", "b", "c"]),
        (Literal["a", "b"], str),
        (Annotated[str, Field(min_length=2, max_length=5)], Annotated[str, Field(min_length=1, max_length=6)]),
        (Annotated[str, Field(pattern="^a")], str),
        (Annotated[int, Field(ge=1)], Annotated[int, Field(gt=0)]),
        (Annotated[int, Field(gt=1)], Annotated[int, Field(ge=1)]),
        (Annotated[int, Field(le=9)], int),
        (Annotated[list[int], Field(max_length=3)], list[int]),
        (Cat, Cat | Dog),
        (Node, NodeGrown),
        (dict[str, Inner], dict[str, Inner]),
        (str, (str, "x")),
    ],
)
def test_a_field_may_take_more_in_a_new_version(old: Any, new: Any) -> None:
    """LH-01: constraints may be loosened, values and branches of the same type added."""
    assert grown(old, new) == []


def test_words_may_change_without_a_version() -> None:
    """LH-01: titles, descriptions, examples and the names of classes are not structure."""
    old = create_model("Old", a=(int, Field(title="A", description="x", examples=[1])), inner=(Inner, ...))
    renamed = create_model("Renamed", a=(int, ...), b=(str, ""))
    new = create_model("New", __doc__="Other words.", a=(int, Field(title="B")), inner=(renamed, ...))
    assert check(document(old), document(new)) == []


def test_a_field_called_title_is_structure() -> None:
    """LH-01: only the words about a schema are left out, not a field that has their name."""
    found = check(document(model(title=str, description=str)), document(model(title=str, description=int)))
    assert ("/description", "type-changed") in [(path, rule) for _, path, rule in rules(found)]


# --- what does not ---------------------------------------------------------------------------------------------------


def test_a_removed_type_is_found() -> None:
    """LH-01: events of a removed type could not be read any more."""
    found = check(document(Inner), {"tallystick_catalog": 1, "types": {}})
    assert rules(found) == [(1, "", "type-removed")]


def test_a_removed_version_is_found() -> None:
    """LH-01: events of a removed version could not be read any more."""
    new = document(Inner, Inner)
    del new["types"]["t"]["versions"]["1"]
    assert rules(check(document(Inner, Inner), new)) == [(1, "", "version-removed")]


def test_a_version_renamed_instead_of_added_is_held_against_the_old_one() -> None:
    """LH-01: dropping version 1 does not hide what version 2 takes away."""
    new = document(Inner, InnerLess)
    del new["types"]["t"]["versions"]["1"]
    assert rules(check(document(Inner), new)) == [(1, "", "version-removed"), (2, "/b", "field-removed")]


def test_a_current_version_that_went_back_is_found() -> None:
    """LH-01: versions only rise."""
    found = check(document(Inner, Inner), document(Inner))
    assert rules(found) == [(1, "", "version-back"), (2, "", "version-removed")]


@pytest.mark.parametrize("upcasters", [(), (1,), (2,)])
def test_a_missing_upcaster_is_found(upcasters: tuple[int, ...]) -> None:
    """LH-01: every old version has a way to the current one."""
    found = check(document(Inner), document(Inner, Inner, Inner, upcasters=upcasters))
    assert rules(found) == [(version, "", "upcaster-missing") for version in (1, 2) if version not in upcasters]


def test_an_upcaster_of_a_version_that_only_events_have_must_stay() -> None:
    """LH-01: an old upcaster is needed as long as it was once needed, also where the model is long gone."""
    old, new = document(Inner, Inner), document(Inner, Inner, upcasters=())
    for exported in (old, new):
        del exported["types"]["t"]["versions"]["1"]
    assert rules(check(old, new)) == [(1, "", "upcaster-missing")]


def test_a_type_of_which_no_model_is_left_needs_its_upcasters_from_the_first_version_on() -> None:
    """LH-01: nobody knows which of its versions events have."""
    bare = document(Inner)
    bare["types"]["t"] |= {"current": 3, "versions": {}, "upcasters": []}
    assert rules(check(bare, bare)) == [(1, "", "upcaster-missing"), (2, "", "upcaster-missing")]


def test_a_removed_field_is_found_in_a_new_version_too() -> None:
    """LH-01: existing fields cannot be removed, with or without a version."""
    first, second = model(a=int, b=str), model(a=int)
    assert rules(check(document(first), document(first, second))) == [(2, "/b", "field-removed")]
    assert rules(check(document(first), document(second))) == [
        (1, "/b", "field-removed"),
        (1, "/b", "changed-without-version"),
    ]


def test_a_new_field_without_a_default_is_found() -> None:
    """LH-01: old events do not have a new field, so it needs a default."""
    first = model(a=int)
    found = check(document(first), document(first, model(a=int, b=str)))
    assert rules(found) == [(2, "/b", "field-required")]
    assert found[0].message.startswith("the field has no default")


def test_an_optional_field_that_becomes_required_is_found() -> None:
    """LH-01: old events may lack what was optional."""
    first = model(a=(int, 0))
    found = check(document(first), document(first, model(a=int)))
    assert rules(found) == [(2, "/a", "field-required")]
    assert found[0].message.startswith("the field was optional and is required now")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (int, str),
        (int, float),
        (str, str | None),
        (str | None, str),
        (str, datetime),
        (datetime, str),
        (str, Any),
        (Any, str),
        (str, Inner),
        (list[int], dict[str, int]),
        (Literal["a"], Literal["a", 1]),
    ],
)
def test_a_changed_type_is_found(old: Any, new: Any) -> None:
    """LH-01: existing fields keep their type, to the letter: also a wider one is another type to a reader."""
    assert grown(old, new) == [("/f", "type-changed")]


@pytest.mark.parametrize(
    ("old", "new", "path", "rule"),
    [
        (Literal["a", "b"], Literal["a"], "/f", "value-removed"),
        (str, Literal["a"], "/f", "narrowed"),
        (str, Annotated[str, Field(min_length=1)], "/f", "narrowed"),
        (Annotated[str, Field(max_length=9)], Annotated[str, Field(max_length=8)], "/f", "narrowed"),
        (Annotated[str, Field(pattern="^a")], Annotated[str, Field(pattern="^b")], "/f", "narrowed"),
        (Annotated[int, Field(ge=0)], Annotated[int, Field(gt=0)], "/f", "narrowed"),
        (Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1)], "/f", "narrowed"),
        (Annotated[int, Field(lt=9)], Annotated[int, Field(le=8)], "/f", "narrowed"),
        (int, Annotated[int, Field(multiple_of=2)], "/f", "narrowed"),
        (list[int], Annotated[list[int], Field(min_length=1)], "/f", "narrowed"),
        (list[int], set[int], "/f", "narrowed"),
        (list[int], list[str], "/f/*", "type-changed"),
        (dict[str, int], dict[str, str], "/f/*", "type-changed"),
        (dict[str, Any], dict[str, int], "/f/*", "type-changed"),
        (tuple[int, str], tuple[int, int], "/f/1", "type-changed"),
        (Inner, InnerLess, "/f/b", "field-removed"),
        (list[Inner], list[InnerLess], "/f/*/b", "field-removed"),
        (Inner | None, InnerLess | None, "/f/b", "field-removed"),
        (Node, NodeNarrowed, "/f/name", "type-changed"),
    ],
)
def test_a_narrowed_field_is_found(old: Any, new: Any, path: str, rule: str) -> None:
    """LH-01: what an old version took, a new one takes, at every depth."""
    assert (path, rule) in grown(old, new)


def test_a_removed_branch_is_found() -> None:
    """LH-01: a union may gain branches and not lose them."""
    assert grown(Pet, Cat) != []
    assert grown(Cat | Dog, Dog) != []


def test_a_model_that_closes_itself_is_found() -> None:
    """LH-01: forbidding further keys refuses events that were fine."""
    closed = create_model("M", __config__=ConfigDict(extra="forbid"), a=(int, ...))
    assert rules(check(document(model(a=int)), document(model(a=int), closed))) == [(2, "", "narrowed")]


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        (model(a=int), model(a=int, b=(str, "")), "/b"),
        (model(a=(int, 0)), model(a=(int, 1)), "/a"),
        (model(a=int), model(a=(int, 1)), "/a"),
        (model(a=Literal["x"]), model(a=Literal["x", "y"]), "/a"),
        (model(a=Node), model(a=NodeGrown), "/a/note"),
        (model(a=list[Inner]), model(a=list[Inner | None]), "/a/*"),
        (model(a=Annotated[int, Field(ge=1)]), model(a=Annotated[int, Field(ge=0)]), "/a"),
    ],
)
def test_a_structural_change_without_a_version_is_found(old: type[BaseModel], new: type[BaseModel], path: str) -> None:
    """LH-01: the same version number is the same schema, also where the change is additive."""
    found = [(place, rule) for _, place, rule in rules(check(document(old), document(new)))]
    assert next(place for place, rule in found if rule == "changed-without-version") == path


def test_each_new_version_is_held_against_the_one_before_it() -> None:
    """LH-01: two versions at once are two steps."""
    one, two, three = model(a=int), model(a=int, b=(str, "")), model(a=int)
    assert rules(check(document(one), document(one, two, three))) == [(3, "/b", "field-removed")]


def test_an_old_fault_is_not_found_again() -> None:
    """LH-01: what both catalogs have was decided before; the check is about the change."""
    one, two = model(a=int, b=str), model(a=int)
    assert check(document(one, two), document(one, two)) == []


def test_a_finding_says_what_was_and_what_is() -> None:
    """LH-01: the message is enough to mend the schema."""
    (found,) = check(document(model(a=int)), document(model(a=int), model(a=str)))
    assert (found.type, found.version, found.path, found.rule) == ("t", 2, "/a", "type-changed")
    assert found.message.startswith("the type was integer, and is string now")
    assert "the upcaster converts old events, but readers of the version before cannot read new ones" in found.message


@pytest.mark.parametrize("broken", [None, {}, {"types": {}}])
def test_a_document_that_is_no_catalog_is_refused(broken: Any) -> None:
    """LH-01: the check does not pass because it compared nothing."""
    for pair in ((broken, document(Inner)), (document(Inner), broken)):
        with pytest.raises(errors.Unavailable):
            check(*pair)
