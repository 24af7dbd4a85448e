"""The bounds that nobody configured: what just fits is taken, one more is refused."""

from __future__ import annotations

import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.event import canonical
from tallystick.testing.builders import event


def test_a_commit_has_a_hundred_thousand_events_and_not_one_more() -> None:
    """LH-04: the bound that docs/formats/event.md names, on a store that nobody configured."""
    with tallystick.open("memory:") as store:
        with pytest.raises(errors.TooLarge) as refused:
            store.append("run/a", [event()] * 100_001)
        assert (refused.value.size, refused.value.limit) == (100_001, 100_000)
        assert store.head() == 0


def test_a_page_has_a_hundred_thousand_events_and_not_one_more() -> None:
    """A reader may ask for 100,000 events at once."""
    with tallystick.open("memory:") as store:
        store.append("run/a", event())
        assert len(store.read(limit=100_000).events) == 1
        for limit in (100_001, 0):
            with pytest.raises(errors.InvalidValue, match="from 1 to 100000"):
                store.read(limit=limit)


@pytest.mark.parametrize("number", [(1 << 63) - 1, -(1 << 63)])
def test_integers_reach_to_the_ends_of_int64(number: int) -> None:
    """LH-02: the greatest and the least are kept as they are; what lies beyond is refused, on the walk too."""
    assert canonical.encode({"x": number}) == b'{"x":%d}' % number
    beyond = number + (1 if number > 0 else -1)
    for value in ({"x": beyond}, {"x": beyond, "y": "\\u0000"}):
        with pytest.raises(errors.NotCanonical, match="int64"):
            canonical.encode(value)


@pytest.mark.filterwarnings("ignore::tallystick.errors.unavailable.LargeEventWarning")
def test_an_event_has_a_mebibyte_and_not_a_byte_more() -> None:
    """LH-04: payload and meta together."""
    around = len(canonical.encode({"x": ""})) + len(canonical.encode({}))
    with tallystick.open("memory:") as store:
        store.append("run/a", NewEvent("thing.happened", {"x": "a" * (1_048_576 - around)}))
        with pytest.raises(errors.TooLarge) as refused:
            store.append("run/a", NewEvent("thing.happened", {"x": "a" * (1_048_577 - around)}))
        assert (refused.value.size, refused.value.limit) == (1_048_577, 1_048_576)


def test_from_the_advised_size_on_there_is_a_warning() -> None:
    """LH-04: 65,536 bytes are advised; one more is stored with a warning."""
    around = len(canonical.encode({"x": ""})) + len(canonical.encode({}))
    with tallystick.open("memory:") as store:
        store.append("run/a", NewEvent("thing.happened", {"x": "a" * (65_536 - around)}))
        with pytest.warns(errors.LargeEventWarning, match="65537 bytes"):
            store.append("run/a", NewEvent("thing.happened", {"x": "a" * (65_537 - around)}))
