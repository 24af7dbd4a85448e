"""Old events are read in the current form; what is stored stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import tallystick
from tallystick import Catalog, Event, NewEvent, errors
from tallystick.event.model import UpcastEvent


class Placed(BaseModel):
    """Any version will do here."""

    n: int = 0


def made(upcasters: dict[int, Callable[[dict[str, Any]], Any]], *, current: int = 3) -> Catalog:
    """A catalog with versions up to `current` of one type."""
    catalog = Catalog()
    for version in range(1, current + 1):
        catalog.register("placed", Placed, version=version)
    for version, upcaster in upcasters.items():
        catalog.upcaster("placed", from_version=version)(upcaster)
    return catalog


def recorded(*, type_: str = "placed", version: int = 1, payload: bytes | None = b'{"n":7}') -> Event:
    """An event as an engine hands it out."""
    return Event(1, "order/1", 1, type_, version, b"\x01" * 16, 5, payload, b"{}", b"\x02" * 32, b"\x03" * 32)


def step_one(data: dict[str, Any]) -> dict[str, Any]:
    """Version 1 to 2."""
    return data | {"steps": ["one"]}


def step_two(data: dict[str, Any]) -> dict[str, Any]:
    """Version 2 to 3."""
    return data | {"steps": [*data.get("steps", []), "two"]}


WHOLE = made({1: step_one, 2: step_two})


@pytest.mark.parametrize(("version", "steps"), [(1, ["one", "two"]), (2, ["two"])])
def test_an_old_version_passes_every_upcaster_on_its_way(version: int, steps: list[str]) -> None:
    """LH-01: each old version is lifted step by step to the current one."""
    (event,) = WHOLE.upcast([recorded(version=version)])
    assert isinstance(event, UpcastEvent)
    assert (event.data, event.current_version) == ({"n": 7, "steps": steps}, 3)


def test_the_envelope_of_an_upcast_event_is_what_was_stored() -> None:
    """LH-01: upcasters change neither type, version, bytes nor hashes."""
    stored = recorded()
    (event,) = WHOLE.upcast([stored])
    assert event.row == stored.row


def test_a_store_reads_old_events_in_the_current_form() -> None:
    """LH-01: read, read_stream and find all go through the upcasters; new events are left alone."""
    with tallystick.open("memory:", catalog=WHOLE) as store:
        store.append("order/1", [NewEvent("placed", {"n": 1}, version=1), NewEvent("placed", {"n": 2})])
        expected = [{"n": 1, "steps": ["one", "two"]}, {"n": 2}]
        assert [event.data for event in store.read().events] == expected
        events = store.read_stream("order/1")
        assert [event.data for event in events] == expected
        assert store.find(events[0].id).data == expected[0]  # type: ignore[union-attr]
        assert [event.version for event in events] == [1, 3]


@pytest.mark.parametrize(
    "event",
    [recorded(version=3), recorded(version=4), recorded(type_="other"), recorded(payload=None)],
    ids=["current", "newer", "other-type", "erased"],
)
def test_events_that_need_no_upcasting_come_back_in_the_same_list(event: Event) -> None:
    """Settled 25: current, newer, foreign and erased events are not touched, and the list is not copied."""
    events = [event]
    assert WHOLE.upcast(events) is events
    assert Catalog().upcast(events) is events


def test_the_list_that_was_handed_in_is_not_changed() -> None:
    """LH-01: an engine may hand out a list it keeps."""
    events = [recorded()]
    assert WHOLE.upcast(events) is not events
    assert type(events[0]) is Event


def test_a_missing_upcaster_is_named_when_it_is_needed() -> None:
    """LH-01: an old event without a way to the current version is an error, not old data in new clothes."""
    catalog = made({1: step_one})
    with pytest.raises(errors.SchemaIncompatible, match=r"from version 2 to 3 \(event 01010101"):
        _ = catalog.upcast([recorded()])[0].data


def crashing(data: dict[str, Any]) -> dict[str, Any]:
    """An upcaster with a bug."""
    raise KeyError(data["n"])


@pytest.mark.parametrize("broken", [crashing, lambda data: None, lambda data: [data]])
def test_a_broken_upcaster_names_event_type_and_version(broken: Callable[[Any], Any]) -> None:
    """LH-01: whoever has to mend it learns which event, type and version it was."""
    with pytest.raises(errors.SchemaIncompatible) as caught:
        _ = made({1: broken}, current=2).upcast([recorded()])[0].data
    assert all(text in str(caught.value) for text in ("placed: ", "version 1", "01010101-0101-0101-0101-010101010101"))


def test_one_that_cannot_be_lifted_keeps_no_other_from_being_read() -> None:
    """LH-01, SAFE-09: a page is read whole; the event has every field as stored, and its data alone is refused."""
    sound, broken = recorded(type_="other", version=1), recorded()
    page = made({1: crashing}, current=2).upcast([sound, broken, sound])
    assert [event.row for event in page] == [sound.row, broken.row, sound.row]
    assert [page[0].data, page[2].data] == [sound.data] * 2
    for _ in range(2):
        with pytest.raises(errors.SchemaIncompatible, match="KeyError"):
            _ = page[1].data


def test_data_without_an_event_can_be_lifted() -> None:
    """LH-01: a test of an upcaster needs no store."""
    assert WHOLE.upcast_data("placed", 2, {"n": 1}) == {"n": 1, "steps": ["two"]}
    assert WHOLE.upcast_data("other", 2, {"n": 1}) == {"n": 1}


@given(st.lists(st.tuples(st.sampled_from(["placed", "other"]), st.integers(1, 4), st.booleans()), max_size=12))
def test_upcasting_keeps_number_order_and_identity(given_events: list[tuple[str, int, bool]]) -> None:
    """LH-01: events are replaced one for one, and only those that are outdated."""
    events = [recorded(type_=type_, version=v, payload=None if gone else b"{}") for type_, v, gone in given_events]
    lifted = WHOLE.upcast(events)
    assert [event.row for event in lifted] == [event.row for event in events]
    for event, after in zip(events, lifted, strict=True):
        outdated = event.type == "placed" and event.version < 3 and event.payload is not None
        assert (after is not event) == outdated


# --- the digest ------------------------------------------------------------------------------------------------------


def test_the_digest_is_the_same_for_the_same_upcasters() -> None:
    """LH-01: fingerprints of equal code are comparable, in any order of registration."""
    again = made({2: step_two, 1: step_one})
    assert WHOLE.upcaster_digest(["placed", "other"]) == again.upcaster_digest(["other", "placed", "placed"])
    assert len(WHOLE.upcaster_digest([])) == 32


def test_the_digest_changes_with_code_and_version() -> None:
    """LH-01: other code, another version or fewer types are another digest."""
    digests = {
        catalog.upcaster_digest(["placed"])
        for catalog in (WHOLE, made({1: step_one}), made({2: step_one}), made({1: step_two}), Catalog())
    }
    assert len(digests) == 5
    assert WHOLE.upcaster_digest([]) == Catalog().upcaster_digest(["placed"])


def test_the_digest_sees_code_without_source() -> None:
    """LH-01: a function made at run time is told apart by its byte code."""
    functions: dict[str, Any] = {}
    exec("def one(data): return data | {'a': 1}\ndef two(data): return data | {'a': 2}", functions)
    for function in (functions["one"], functions["two"]):
        function.__qualname__ = "same"
    digests = {made({1: functions[name]}).upcaster_digest(["placed"]) for name in ("one", "two")}
    assert len(digests) == 2
