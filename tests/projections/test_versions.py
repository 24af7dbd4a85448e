"""Old versions of events, seen through upcasters."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from tallystick import Catalog, Event, NewEvent, errors
from tallystick.projections import Live, Projection, ViewReader, rebuild


class First(BaseModel):
    """Version 1: one text."""

    who: str


class Second(BaseModel):
    """Version 2: a customer's id."""

    who: str = ""
    customer: str


def catalog_of(versions: int) -> Catalog:
    """A catalog that knows one version, or both."""
    catalog = Catalog()
    catalog.register("visit", First, version=1)
    if versions == 2:
        catalog.register("visit", Second, version=2)
        catalog.upcaster("visit", from_version=1)(lambda data: data | {"customer": "c-" + data["who"]})
    return catalog


class Visits(Projection):
    """How often each customer came."""

    types = ("visit",)
    key = "payload.customer"

    def initial(self) -> Any:
        return 0

    def apply(self, state: Any, event: Event) -> Any:
        return state + 1


def test_current_and_previous_versions_are_folded_alike(open_store: Any, engine: str) -> None:
    """CP-08: the key is looked for after upcasting, so both versions of one customer meet in one row."""
    store = open_store(engine, catalog=catalog_of(2))
    store.append("shop/1", [NewEvent("visit", {"who": "ada"}, version=1), NewEvent("visit", {"customer": "c-ada"})])
    Live(store, Visits()).catch_up()
    assert dict(ViewReader(store, "Visits").items()) == {"c-ada": 2}


def test_without_the_upcaster_the_old_version_has_no_key(open_store: Any) -> None:
    """CP-08: that is said by name, and nothing is stored."""
    store = open_store(catalog=catalog_of(1))
    store.append("shop/1", NewEvent("visit", {"who": "ada"}))
    with pytest.raises(errors.ProjectionKeyInvalid, match="not there"):
        Live(store, Visits()).catch_up()
    assert ViewReader(store, "Visits").position() == 0


def test_other_upcasters_are_another_definition(open_store: Any) -> None:
    """CP-08: rows folded through other upcasters are not continued."""
    store = open_store(catalog=catalog_of(2))
    store.append("shop/1", NewEvent("visit", {"who": "ada"}, version=1))
    Live(store, Visits()).catch_up()
    store.catalog.upcaster("visit", from_version=2)(lambda data: data | {"customer": data["customer"].upper()})
    with pytest.raises(errors.ProjectionChanged, match="upcasters"):
        Live(store, Visits()).catch_up()
    rebuild(store, Visits())
    assert dict(ViewReader(store, "Visits").items()) == {"C-ADA": 1}
