"""A catalog is filled with decorators and refuses what does not go together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import tallystick
from tallystick import Catalog, NewEvent, errors


class First(BaseModel):
    """A first version."""

    a: int


class Second(BaseModel):
    """A second version."""

    a: int
    b: int = 0


def test_the_highest_version_is_the_current_one() -> None:
    """LH-01: new events get the current version, whatever the order of registration."""
    catalog = Catalog()
    catalog.register("t", Second, version=2)
    catalog.register("t", First, version=1)
    assert (catalog.current_version("t"), catalog.current_version("u")) == (2, None)


def test_a_version_has_one_model_and_one_upcaster() -> None:
    """LH-01: what a version means is said once; saying the same again is harmless."""
    catalog = Catalog()
    for _ in range(2):
        catalog.register("t", First)
        catalog.upcaster("t", from_version=1)(dict)
    with pytest.raises(errors.InvalidValue, match="First and Second"):
        catalog.register("t", Second)
    with pytest.raises(errors.InvalidValue):
        catalog.upcaster("t", from_version=1)(lambda data: data)


@pytest.mark.parametrize("model", [dict, First(a=1), "First", None])
def test_only_a_model_class_can_be_registered(model: Any) -> None:
    """LH-02: a type has a Pydantic model."""
    with pytest.raises(errors.InvalidValue, match="Pydantic model class"):
        Catalog().register("t", model)


@pytest.mark.parametrize("version", [0, -1, True, "1", 1 << 31])
def test_a_version_is_a_small_number_from_one(version: Any) -> None:
    """LH-01: versions are explicit positive integers."""
    with pytest.raises(errors.InvalidValue):
        Catalog().register("t", First, version=version)
    with pytest.raises(errors.InvalidValue):
        Catalog().upcaster("t", from_version=version)


def test_a_type_has_the_form_of_a_name() -> None:
    """A type that could never be appended cannot be registered."""
    with pytest.raises(errors.InvalidName):
        Catalog().register("no spaces", First)


def test_a_complete_catalog_passes_its_check() -> None:
    """LH-01: every registered version leads to the current one."""
    catalog = Catalog()
    catalog.register("t", First)
    catalog.register("t", Second, version=3)
    catalog.upcaster("t", from_version=1)(dict)
    with pytest.raises(errors.SchemaIncompatible, match="no upcaster leads from version 2 to 3"):
        catalog.check()
    catalog.upcaster("t", from_version=2)(dict)
    catalog.check()


def test_an_upcaster_to_a_version_without_a_model_fails_the_check() -> None:
    """LH-01: upcasting to a form that nothing describes is noticed."""
    catalog = Catalog()
    catalog.register("t", First)
    catalog.upcaster("t", from_version=1)(dict)
    with pytest.raises(errors.SchemaIncompatible, match="version 2 has no model"):
        catalog.check()


def test_a_catalog_can_include_another() -> None:
    """LH-02: types, upcasters and kinds of one catalog are taken over; contradictions are refused."""
    one, other = Catalog(), Catalog()
    other.register("t", First)
    other.register("t", Second, version=2)
    other.upcaster("t", from_version=1)(dict)
    other.declare_kind("node", tenant=False)
    one.include(other)
    one.check()
    assert (one.current_version("t"), one.is_tenant("node")) == (2, False)
    third = Catalog()
    third.register("t", Second)
    with pytest.raises(errors.InvalidValue):
        third.include(other)


def test_an_undeclared_kind_is_a_tenant() -> None:
    """Settled 24: a kind that nobody declared needs an org, which is the safe side; infrastructure does not."""
    catalog = Catalog()
    catalog.declare_kind("node", tenant=False)
    meta = {"actor_type": "system", "actor_id": "a", "request_id": "r"}
    with tallystick.open("memory:", profile="control-plane", catalog=catalog) as store:
        store.append("node/1", NewEvent("t", {}, meta=meta))
        with pytest.raises(errors.MissingMeta, match="'org'"):
            store.append("order/1", NewEvent("t", {}, meta=meta))
        store.append("order/1", NewEvent("t", {}, meta=meta | {"org": "o"}))


def test_a_kind_has_the_form_of_a_name() -> None:
    """Settled 24: a kind that no stream can have cannot be declared."""
    with pytest.raises(errors.InvalidName):
        Catalog().declare_kind("Node/1", tenant=True)


# --- loading ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the user's with a catalog in it."""
    (tmp_path / "shop_events_for_test.py").write_text("import tallystick\ncatalog = tallystick.Catalog()\nother = 1\n")
    (tmp_path / "broken_events_for_test.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("shop_events_for_test", "broken_events_for_test"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("module")
def test_a_catalog_is_loaded_by_reference() -> None:
    """LH-02: MODULE:NAME names a catalog, for the command line."""
    assert isinstance(Catalog.load("shop_events_for_test:catalog"), Catalog)


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("reference", "kind", "text"),
    [
        ("shop_events_for_test", errors.InvalidValue, "MODULE:NAME"),
        (":catalog", errors.InvalidValue, "MODULE:NAME"),
        ("no_such_module_for_test:catalog", errors.Unavailable, "ModuleNotFoundError"),
        ("shop_events_for_test:missing", errors.Unavailable, "missing"),
        ("shop_events_for_test:other", errors.Unavailable, "is a int, not a tallystick Catalog"),
        ("broken_events_for_test:catalog", errors.Unavailable, "ZeroDivisionError"),
        ("..:catalog", errors.Unavailable, "cannot load"),
    ],
)
def test_a_catalog_that_cannot_be_loaded_is_a_typed_error(reference: str, kind: type[Exception], text: str) -> None:
    """LH-02: whatever a user's module does, the error says what could not be loaded."""
    with pytest.raises(kind, match=text):
        Catalog.load(reference)
