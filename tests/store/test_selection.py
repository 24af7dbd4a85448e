"""Selections as values."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import Event, Selection, errors, select
from tallystick.store.selection import EVERYTHING

FOUND = Event(1, "order/1", 1, "thing.happened", 1, bytes(16), 50, b"{}", b'{"app":"web","org":"acme"}', b"", b"")


@pytest.mark.parametrize(
    ("conditions", "wanted"),
    [
        ({}, True),
        ({"stream": "order/1"}, True),
        ({"stream": "order/10"}, False),
        ({"kind": "order"}, True),
        ({"kind": "orders"}, False),
        ({"type": "thing.happened"}, True),
        ({"type": "thing"}, False),
        ({"org": "acme", "app": "web"}, True),
        ({"org": "acme", "app": "cli"}, False),
        ({"env": "prod"}, False),
        ({"time_from": 50, "time_until": 51}, True),
        ({"time_from": 51}, False),
        ({"time_until": 50}, False),
    ],
)
def test_all_conditions_must_hold(conditions: dict[str, Any], wanted: bool) -> None:
    """CP-09: an event is wanted if every condition that is set holds for it."""
    assert select(**conditions).predicate()(FOUND) is wanted


def test_an_erased_event_is_judged_by_its_envelope() -> None:
    """EVT-14: filters look at envelope and meta, which erasure leaves."""
    erased = Event(1, "order/1", 1, "thing.happened", 1, bytes(16), 50, None, b'{"org":"acme"}', b"", b"")
    assert select(org="acme", type="thing.happened").predicate()(erased)


def test_no_condition_is_everything() -> None:
    """An empty selection is known as such, so that engines can read without looking."""
    assert select().is_everything
    assert Selection() == EVERYTHING
    assert not select(time_from=0).is_everything


@pytest.mark.parametrize("name", ["streams", "kinds", "types"])
def test_one_text_is_no_set_of_names(name: str) -> None:
    """A text where a set belongs would be taken letter by letter, so it is refused."""
    with pytest.raises(errors.InvalidValue):
        Selection(**{name: "order/1"})  # type: ignore[arg-type]


def test_the_scope_is_what_is_set() -> None:
    """CP-10: org, app and env are conditions on meta."""
    assert select(org="acme", env="prod").scope == {"org": "acme", "env": "prod"}
    assert select(type="x").scope == {}
