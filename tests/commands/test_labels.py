"""Corrections and backfills are new events with a label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store, errors, select
from tallystick.commands import backfill, correction
from tallystick.event import ids
from tallystick.store.verify import verify

META = {"actor_type": "user", "actor_id": "ada", "request_id": "r1", "org": "acme"}


@pytest.fixture
def store() -> Iterator[Store]:
    """A control plane with one wrong event."""
    with tallystick.open("memory:", profile="control-plane") as store:
        store.append("app/web", NewEvent("app.scaled", {"replicas": 30}, meta=META))
        yield store


def test_a_correction_names_what_it_corrects(store: Store) -> None:
    """CP-12: the wrong event stays as it is; a new one is labelled with its id and the reason."""
    (wrong,) = store.read_stream("app/web")
    made = correction(wrong, "app.scaled", {"replicas": 3}, reason="a typing error", meta=META | {"tags": {"x": "y"}})
    store.append("app/web", made, expected=1)
    kept, right = store.read_stream("app/web")
    assert kept == wrong
    assert right.metadata["tags"] == {
        "x": "y",
        "label": "correction",
        "corrects": ids.to_text(wrong.id),
        "reason": "a typing error",
    }
    assert right.metadata["causation_id"] == ids.to_text(wrong.id)
    assert verify(store.log).ok


@pytest.mark.parametrize("given", [{"tags": ["app:web"]}, {"meta": META | {"tags": ["app:web"]}}], ids=["tags", "meta"])
def test_labels_join_the_tags_of_an_event(store: Store, given: dict[str, Any]) -> None:
    """CP-12, TAG-01: if the event has tags, its labels are tags, and readers find it by both."""
    (wrong,) = store.read_stream("app/web")
    given = {"meta": META} | given
    store.append("app/web", correction(wrong, "app.scaled", {"replicas": 3}, reason="a typing error", **given))
    store.append("app/web", backfill("2026-regions", 7, "app.placed", {}, time=10**9, **given))
    corrects = f"corrects:{ids.to_text(wrong.id)}"
    _, right, late = store.read_stream("app/web")
    assert right.tags == ("app:web", corrects, "label:correction", "reason:a typing error")
    assert late.tags == ("app:web", "batch:2026-regions", "label:backfill", "number:7")
    assert store.read(selection=select(tags=["app:web", "label:correction"])).events == [right]
    assert right.metadata["causation_id"] == ids.to_text(wrong.id)


@pytest.mark.parametrize("given", [5, "app:web", [1], ["a" * 257], None])
def test_bad_tags_in_the_meta_are_refused(store: Store, given: Any) -> None:
    """CP-12: by name, before anything is written."""
    (wrong,) = store.read_stream("app/web")
    with pytest.raises(errors.InvalidInput):
        store.append("app/web", correction(wrong, "app.scaled", {}, reason="x", meta=META | {"tags": given}))
    assert store.head() == 1


def test_a_backfill_is_labelled_and_may_be_repeated(store: Store) -> None:
    """CP-12: the same batch appended twice is recorded once, and each event names its batch."""

    def batch() -> list[NewEvent]:
        return [backfill("2026-regions", n, "app.placed", {"n": n}, time=n * 10**9, meta=META) for n in range(3)]

    first, again = store.append("app/web", batch()), store.append("app/web", batch())
    assert (first.stored, again.stored, again.last_seq) == (0, 3, 4)
    placed = store.read_stream("app/web", after=1)
    assert [event.metadata["tags"]["number"] for event in placed] == ["0", "1", "2"]
    assert {event.metadata["tags"]["label"] for event in placed} == {"backfill"}
    assert {event.uuid.version for event in placed} == {7}
    assert len({event.id for event in placed}) == 3


def test_a_batch_that_an_earlier_version_began_is_gone_on_with() -> None:
    """CP-12: the ids of a batch are the same in every version, otherwise its events would be recorded again."""
    made = backfill("2026-01", 7, "app.placed", {}, time=1_700_000_000_123_456_789, meta=META)
    assert ids.to_text(ids.to_bytes(made.id)) == "018bcfe5-687b-735d-ab6d-85732384414c"


def test_another_content_under_the_same_number_is_refused(store: Store) -> None:
    """CP-12: a backfill cannot change its recorded events."""
    store.append("app/web", backfill("b", 1, "app.placed", {"n": 1}, time=0, meta=META))
    with pytest.raises(errors.DuplicateId):
        store.append("app/web", backfill("b", 1, "app.placed", {"n": 2}, time=0, meta=META))


@pytest.mark.parametrize("reason", ["", "a\nb", None])
def test_a_reason_is_a_text(store: Store, reason: str) -> None:
    """CP-12: an empty reason or batch is refused."""
    (wrong,) = store.read_stream("app/web")
    with pytest.raises(errors.InvalidValue):
        correction(wrong, "app.scaled", {}, reason=reason)
