"""Unusual keys: a key that cannot be listed is not stored, and an impossible key is not looked up."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import NewEvent, errors
from tallystick.projections import Live, ViewReader
from tallystick.testing.shop import PLACED, CustomerBalance, order_event

ODD = [
    "x" * 500,
    "é" * 500,
    "😀" * 500,
    "\\",
    "a\nb",
    "\x7f",
    "\u2028",
    "\ufeff",
    "\uffff",
    "\U0010ffff",
    "'",
    "%",
    " ",
]


def test_every_odd_key_is_listed_once_and_in_order(open_store: Any, engine: str) -> None:
    """CP-08: unusual keys are found by page, by key and in the fingerprint."""
    store = open_store(engine)
    store.append("order/1", [order_event(PLACED, customer=key) for key in ODD])
    Live(store, CustomerBalance()).catch_up()
    reader = ViewReader(store, "CustomerBalance")
    assert [key for key, _ in reader.items()] == sorted(ODD, key=str.encode)
    assert all(reader.get(key) is not None for key in ODD)
    assert reader.fingerprint().rows == len(ODD)


def test_an_empty_key_is_refused_and_not_left_out_of_every_list(open_store: Any, engine: str) -> None:
    """CP-08: an empty key is refused: no page and no fingerprint would contain its row."""
    store = open_store(engine)
    store.append("order/1", order_event(PLACED, customer=""))
    with pytest.raises(errors.ProjectionKeyInvalid, match="0 characters"):
        Live(store, CustomerBalance()).catch_up()


@pytest.mark.parametrize("key", ["\ud800", 5, None])
def test_a_key_that_no_row_can_have_is_refused(open_store: Any, engine: str, key: Any) -> None:
    """CP-08: every engine refuses it with the same error, not with its driver's."""
    reader = ViewReader(open_store(engine), "CustomerBalance")
    with pytest.raises(errors.InvalidValue):
        reader.get(key)
    with pytest.raises(errors.InvalidValue):
        reader.rows(after=key)


@pytest.mark.parametrize("limit", [0, -1, True, "1"])
def test_a_page_of_no_rows_is_refused(open_store: Any, engine: str, limit: Any) -> None:
    """CP-08: -1 meant all rows in one engine, and all but the last in another."""
    store = open_store(engine)
    store.append("order/1", NewEvent(PLACED, {}))
    with pytest.raises(errors.InvalidValue, match="limit"):
        ViewReader(store, "CustomerBalance").rows(limit=limit)
