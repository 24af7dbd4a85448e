"""The rows are measured: small runs of real cases, whose figures are held against what is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from bench import payloads, soak
from bench.harness import Row, Spec
from bench.rows import CASES, community, disk, large, lookup, projections
from bench.workshop import FULL, QUICK, Scale, Workshop, bytes_on_disk
from tallystick import NewEvent
from tallystick.event import canonical

SPECS = {spec.name: spec for case in CASES for spec in case.specs}
TINY = Scale(rounds=3, batches=1, tasks_events=2, singles=5, replayed=1000, large=2000, lookups=20, sized=200)


@pytest.fixture
def workshop() -> Iterator[Workshop]:
    with Workshop(TINY) as place:
        yield place


@pytest.mark.parametrize(
    "case",
    [disk.disk, lookup.lookup, large.large, projections.projections, community.receive],
    ids=["disk", "lookup", "large", "projections", "community"],
)
def test_a_case_measures_every_row_that_it_declares(case: Any, workshop: Workshop) -> None:
    """LH-18, CP-08, CP-13, COM-03: each row comes out once, with a figure, and a bar that its figure decides on."""
    rows: list[Row] = list(case.measure(workshop))
    assert [row.name for row in rows] == [spec.name for spec in case.specs]
    for row in rows:
        assert row.value is not None
        assert row.value > 0
        if row.bar is not None:
            figure = row.ratio if row.bar.of == "ratio" else row.value
            assert figure is not None
            assert row.met == (figure >= row.bar.figure if row.bar.op == ">=" else figure <= row.bar.figure)


def test_the_overhead_on_disk_is_that_of_the_files(workshop: Workshop, tmp_path: Path) -> None:
    """LH-18: the row of 1 KB payloads says what a store of the same events takes, byte for byte."""
    row = next(row for row in disk.disk.measure(workshop) if row.name == disk.OPEN[1024, 1000].name)
    with tallystick.open(f"files:{tmp_path}/log") as store:
        events = [NewEvent(payloads.TYPE, body, meta=disk._META) for body in payloads.orders(200, bytes_min=1024)]
        store.append("order/0", events)
        size = sum(len(event.payload) + len(event.meta) for event in store.events())
    assert row.value == pytest.approx(bytes_on_disk(tmp_path / "log") / size, rel=0.02)


def test_a_lookup_that_finds_nothing_is_no_figure(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-18: a store that lost its events would be quick to look them up."""
    monkeypatch.setattr(tallystick.Store, "find", lambda self, event_id: None)
    with pytest.raises(RuntimeError, match="was not found"):
        list(lookup.lookup.measure(workshop))


def test_a_soak_counts_and_verifies(workshop: Workshop) -> None:
    """LH-18, LH-20: both phases run, everything acknowledged is there, and the store verifies."""
    rows = {row.name: row for row in soak.soak(soak.MINUTES_MIN / 3, workshop, say=lambda text: None)}
    assert list(rows) == [spec.name for spec in soak.SPECS]
    assert rows[soak.RATE.name].value > 0
    assert rows[soak.MIXED.name].value > 0
    assert (rows[soak.MISSING.name].value, rows[soak.MISSING.name].met) == (0, True)
    assert (rows[soak.PROBLEMS.name].value, rows[soak.PROBLEMS.name].met) == (0, True)


def test_a_soak_notices_events_that_were_acknowledged_and_are_not_there(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LH-20: an append that answers without writing shows as missing events, and misses the bar."""
    append, answers = soak.Phase.append, []

    async def forgetful(phase: soak.Phase, stream: str, events: Any, **expected: int) -> Any:
        if len(answers) == 7:
            phase.watch.count(1, 0.001)
            answers.append(answers[-1])
        else:
            answers.append(await append(phase, stream, events, **expected))
        return answers[-1]

    monkeypatch.setattr(soak.Phase, "append", forgetful)
    rows = {row.name: row for row in soak.soak(soak.MINUTES_MIN / 10, workshop, say=lambda text: None)}
    assert rows[soak.MISSING.name].value == 1
    assert not rows[soak.MISSING.name].met


def test_names_are_unique() -> None:
    """A name finds one row."""
    assert len(SPECS) == sum(len(case.specs) for case in CASES)


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_a_row_says_what_is_unequal(spec: Spec) -> None:
    """A comparison without its conditions is an advertisement."""
    assert spec.note
    assert spec.bar is None or spec.bar.of == "value" or spec.against


def test_rounds_are_never_fewer_than_three() -> None:
    """One round proves nothing on a machine that others use."""
    assert min(FULL.rounds, QUICK.rounds) >= 3


def test_a_quick_run_says_that_its_store_is_smaller() -> None:
    """A figure for 200,000 events is not passed off as one for 1,000,000."""
    assert "200,000" in QUICK.large_note
    assert FULL.large_note == ""


def test_payloads_are_about_350_bytes_and_all_different() -> None:
    """The measured events have the promised size, and no encoder can cache them."""
    encoded = canonical.encode_many(payloads.orders(500))
    assert 320 <= sum(map(len, encoded)) / 500 <= 380
    assert len(set(encoded)) == 500


def test_padded_payloads_have_their_size() -> None:
    """The overhead at 1 KB is measured on payloads of 1 KB."""
    assert {len(each) for each in canonical.encode_many(payloads.orders(50, bytes_min=1024))} == {1024}
