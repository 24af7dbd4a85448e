"""Old versions of events, seen through upcasters."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

import tallystick
from tallystick import Catalog, Event, NewEvent, errors
from tallystick.projections import Live, Projection, ViewReader, rebuild
from tallystick.state.erasure import erase


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
    """The number of visits of each customer."""

    types = ("visit",)
    key = "payload.customer"

    def initial(self) -> Any:
        return 0

    def apply(self, state: Any, event: Event) -> Any:
        return state + 1


def test_current_and_previous_versions_are_folded_alike(open_store: Any, engine: str) -> None:
    """CP-08: the key is taken after upcasting, so both versions of one customer are in one row."""
    store = open_store(engine, catalog=catalog_of(2))
    store.append("shop/1", [NewEvent("visit", {"who": "ada"}, version=1), NewEvent("visit", {"customer": "c-ada"})])
    Live(store, Visits()).catch_up()
    assert dict(ViewReader(store, "Visits").items()) == {"c-ada": 2}


def test_without_the_upcaster_the_old_version_has_no_key(open_store: Any) -> None:
    """CP-08: it is refused by name, and nothing is stored."""
    store = open_store(catalog=catalog_of(1))
    store.append("shop/1", NewEvent("visit", {"who": "ada"}))
    with pytest.raises(errors.ProjectionKeyInvalid, match="not there"):
        Live(store, Visits()).catch_up()
    assert ViewReader(store, "Visits").position() == 0


def test_other_upcasters_are_another_definition(open_store: Any) -> None:
    """CP-08: rows that were folded with other upcasters are not continued."""
    store = open_store(catalog=catalog_of(2))
    store.append("shop/1", NewEvent("visit", {"who": "ada"}, version=1))
    Live(store, Visits()).catch_up()
    store.catalog.upcaster("visit", from_version=2)(lambda data: data | {"customer": data["customer"].upper()})
    with pytest.raises(errors.ProjectionChanged, match="upcasters"):
        Live(store, Visits()).catch_up()
    rebuild(store, Visits())
    assert dict(ViewReader(store, "Visits").items()) == {"C-ADA": 1}


def test_an_erasure_without_the_catalog_leaves_no_state_behind(tmp_path: Any) -> None:
    """Settled 25: without the upcasters the key is unknown, so every row is dropped and folded again."""
    visits = [NewEvent("visit", {"who": "ada"}, version=1), NewEvent("visit", {"customer": "eve"})]
    for engine in ("sqlite", "files"):
        url = f"{engine}:{tmp_path}/{engine}.log"
        with tallystick.open(url, catalog=catalog_of(2)) as store:
            store.append("shop/1", visits)
            Live(store, Visits()).catch_up()
        with tallystick.open(url) as store:
            erase(store, "shop/1", 1, reason="asked for")
            with pytest.raises(errors.ProjectionNotFound):
                ViewReader(store, "Visits").rows()
        with tallystick.open(url, catalog=catalog_of(2)) as store:
            Live(store, Visits()).catch_up()
            assert list(ViewReader(store, "Visits").items()) == [("eve", 1)]


def test_an_erasure_with_the_catalog_takes_one_row(open_store: Any, engine: str) -> None:
    """Settled 25: the key is taken after upcasting; other rows stay readable."""
    store = open_store(engine, catalog=catalog_of(2))
    store.append("shop/1", [NewEvent("visit", {"who": "ada"}, version=1), NewEvent("visit", {"customer": "eve"})])
    Live(store, Visits()).catch_up()
    erase(store, "shop/1", 1, reason="asked for")
    assert list(ViewReader(store, "Visits").items()) == [("eve", 1)]


def test_an_epoch_whose_number_is_given_again_takes_no_rows_of_the_old_one(tmp_path: Any) -> None:
    """Settled 25: a slow runner that read before all rows were dropped stores nothing, even at the same position."""
    url = f"sqlite:{tmp_path}/log"
    with tallystick.open(url, catalog=catalog_of(2)) as store, tallystick.open(url) as other:
        store.append("shop/1", [NewEvent("visit", {"who": "ada"}, version=1), NewEvent("visit", {"customer": "c-ada"})])
        slow = Live(store, Visits(), batch_events=1)
        slow.step()
        write = slow._views.write

        def late(place: Any, rows: Any, *, previous: int) -> None:
            slow._views.write = write
            erase(other, "shop/1", 1, reason="asked for")
            Live(store, Visits(), batch_events=1).step(until=1)
            write(place, rows, previous=previous)

        slow._views.write = late
        slow.catch_up()
        assert dict(ViewReader(store, "Visits").items()) == {"c-ada": 1}
