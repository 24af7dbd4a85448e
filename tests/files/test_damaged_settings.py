"""A store whose settings cannot be read must open all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick import errors
from tallystick.engines.files import segment
from tallystick.testing.builders import events


@pytest.mark.parametrize("readonly", [True, False], ids=["reader", "writer"])
def test_a_damaged_settings_frame_does_not_stop_the_store_from_opening(
    opened: Any, directory: Path, flip: Any, readonly: bool
) -> None:
    """Settled 15: events outside the hole are readable, and the strict settings hold meanwhile."""
    with opened(secrets="warn") as store:
        store.append("order/1", events(5))
    flip(directory / "current.log", segment.SIZE + 60)
    store = opened(readonly=readonly)
    assert store.settings == {"secrets": "reject"}
    assert [item.position for item in store.events(over_holes=True)] == [2, 3, 4, 5, 6]
    assert [(hole.first, hole.last) for hole in store.holes()] == [(1, 1)]
    if not readonly:
        with pytest.raises(errors.Damaged):
            store.append("order/1", events(1))
