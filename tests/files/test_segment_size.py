"""How large a segment may be asked to be."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import NewEvent, errors

LEAST, MOST = 256, 1 << 31


@pytest.mark.parametrize("size", [0, LEAST - 1, MOST + 1, 1 << 40, -1, 4096.0, True, "4096"])
def test_a_segment_size_outside_its_range_is_refused(opened: Any, directory: Any, size: Any) -> None:
    """LH-06: offsets in the index have 32 bits, so a segment that could outgrow them is never begun."""
    with pytest.raises(errors.InvalidValue, match="segment_bytes_max"):
        opened(segment_bytes_max=size)
    assert not directory.exists()


@pytest.mark.parametrize("size", [LEAST, MOST])
def test_a_segment_size_at_the_ends_of_its_range_is_taken(opened: Any, size: int) -> None:
    """LH-06: both bounds can be written with."""
    store = opened(segment_bytes_max=size)
    assert [store.append("order/1", NewEvent("thing.happened", {})).position for _ in range(3)] == [1, 2, 3]
