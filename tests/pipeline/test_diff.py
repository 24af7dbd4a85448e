"""`diff`, by packets and event by event, finds what plain Python finds over the same history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import errors, state
from tallystick.event.model import Event
from tallystick.pipeline.fold import packets
from tallystick.pipeline.fold.packets import PacketPlan
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.diff import diff
from tallystick.pipeline.spark.failures import clear
from tallystick.projections import Projection, model
from tallystick.state import as_reducer
from tallystick.state.reducer import Reducer

MakeLog = Callable[..., None]
SMALL = PacketPlan(groups=3, parts=2, table_bytes=2000, packet_bytes=500)


class Trail(Projection):
    """The positions of a key's events."""

    types: tuple[str, ...] = ("order.placed", "order.paid")

    def __init__(self, key: str) -> None:
        self.key = key

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"trail": []}

    def apply(self, found: dict[str, Any], event: Event) -> dict[str, Any]:
        """One event more."""
        return {"trail": [*found["trail"], event.position]}


class Other(Trail):
    """With another type, and another value at some positions."""

    types = ("order.noted", "order.paid")

    def apply(self, found: dict[str, Any], event: Event) -> dict[str, Any]:
        """The next state; the versions differ, and may agree again later."""
        if event.position % 11 == 0:
            return found
        return super().apply(found, event)


class Counted:
    """Counts all events of a stream, whatever their type."""

    name, version, kinds = "differing.counted", 1, ("order",)

    def initial(self) -> int:
        """None yet."""
        return 0

    def apply(self, found: int, event: Event) -> int:
        """One more."""
        return found + 1


class CountedOften(Counted):
    """Counts the third event twice."""

    def apply(self, found: int, event: Event) -> int:
        """One more, or two."""
        return found + (2 if event.seq == 3 else 1)


Found = tuple[set[str], dict[str, int]]


def expected(url: str, old: Any, new: Any, key_of: Callable[[Event], str | None]) -> Found:
    """All keys, and for those that differ at the end the position at which they first differed."""
    states: dict[str, list[Any]] = {}
    first: dict[str, int] = {}
    with tallystick.open(url, readonly=True) as store:
        for event in store.events():
            takes = [not one.types or event.type in one.types for one in (old, new)]
            if event.stream.startswith("tally.") or not any(takes) or (key := key_of(event)) is None:
                continue
            both = states.setdefault(key, [old.initial(), new.initial()])
            for at, (one, is_taken) in enumerate(zip((old, new), takes, strict=True)):
                both[at] = one.apply(both[at], event) if is_taken else both[at]
            if both[0] != both[1]:
                first.setdefault(key, event.position)
    return set(states), {key: at for key, at in first.items() if states[key][0] != states[key][1]}


@pytest.fixture(params=[SMALL, None], ids=["in packets", "one by one"])
def planned(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events go through Spark in packets, or one by one, as in a log that is too large for packets."""
    monkeypatch.setattr(packets, "plan", lambda events, parts_max: request.param)


@pytest.fixture
def history(spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path) -> tuple[str, Path]:
    """Random orders, partly archived, with control facts and erased payloads on both sides."""
    make_log(files_url, events=90, streams=8, seed=3)
    archive(spark, files_url, tmp_path / "archive", until=60, bucket_events=25)
    with tallystick.open(files_url) as store:
        for stream in ("order/o1", "order/o2", "order/o3"):
            state.erase(store, stream, 2, reason="asked", reducers=[])
    return files_url, tmp_path / "archive"


@pytest.mark.parametrize("key", ["stream", "kind", "payload.customer_id"])
@pytest.mark.usefixtures("planned")
def test_projections_differ_where_plain_python_says(spark: SparkSession, history: tuple[str, Path], key: str) -> None:
    """PIPE-05: the keys, how many differ, and the first event after which they differ."""
    url, place = history
    keys, parted = expected(url, Trail(key), Other(key), lambda event: model.key_of(Trail(key), event))
    for where in (None, place):
        found = diff(spark, url, Trail(key), Other(key), where)
        assert (found.keys, found.differing) == (len(keys), len(parted))
        assert {item.key: item.position for item in found.differences} == parted
    assert diff(spark, url, Trail(key), Trail(key), place).same


@pytest.mark.usefixtures("planned")
def test_a_reducer_sees_its_kinds_and_no_control_facts(spark: SparkSession, history: tuple[str, Path]) -> None:
    """PIPE-05: streams of other kinds and of the store itself are not keys."""
    url, place = history
    with tallystick.open(url) as store:
        store.append("run/r1", [tallystick.NewEvent("run.noted", {"n": at}) for at in range(4)])
        store.append("orders/o1", [tallystick.NewEvent("run.noted", {"n": at}) for at in range(4)])
    old, new = as_reducer(Counted), as_reducer(CountedOften)
    assert isinstance(old, Reducer)
    keys, parted = expected(url, old, new, lambda e: e.stream if e.stream.startswith("order/") else None)
    found = diff(spark, url, old, new, place)
    assert (found.keys, {item.key: item.position for item in found.differences}) == (len(keys), parted)


class Failing(Trail):
    """Fails at one event."""

    def apply(self, found: dict[str, Any], event: Event) -> dict[str, Any]:
        """Not that one."""
        return super().apply(found, event) if event.position != 50 else {}["missing"]


@pytest.mark.usefixtures("planned")
def test_the_version_that_fails_is_named(spark: SparkSession, history: tuple[str, Path]) -> None:
    """PIPE-05: the error names the version and the event at which it failed."""
    url, place = history
    types = ("order.placed", "order.paid", "order.noted")
    old, new = Trail("kind"), Failing("kind")
    old.types = new.types = types  # type: ignore[misc]
    with pytest.raises(errors.ProjectionFailed, match="Failing") as caught, clear():
        diff(spark, url, old, new, place)
    assert caught.value.values["position"] == 50
