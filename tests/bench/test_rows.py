"""The rows themselves: which promises are measured, and that each is fit to be shown."""

from __future__ import annotations

import pytest

from bench import payloads
from bench.harness import Bar, Spec
from bench.rows import CASES
from bench.workshop import FULL, QUICK
from tallystick.event import canonical

SPECS = {spec.name: spec for case in CASES for spec in case.specs}

PROMISED = [
    ("files: batches of 1,000, everything on", Bar("ratio", ">=", 0.6)),
    ("files: batches of 1,000, guard off", Bar("ratio", ">=", 1.0)),
    ("files: batches of 1,000, guard off, against eventsourcing", Bar("ratio", ">=", 1.0)),
    ("files, async: 64 tasks, one durable event each at a time", Bar("ratio", ">=", 4.0)),
    ("files, async: 64 tasks, 40,000 events/s", Bar("value", ">=", 40_000)),
    ("files: one event, durable, median, against the bare disk", Bar("ratio", "<=", 2.0)),
    ("files: verified replay", Bar("ratio", ">=", 1.1)),
    ("sqlite: batches of 1,000, everything on", Bar("ratio", ">=", 0.35)),
    ("sqlite: batches of 1,000, guard off", Bar("ratio", ">=", 0.55)),
]

LH_18 = [
    ("files: one event, durable, median", Bar("value", "<=", 1.0)),
    ("files: one event, durable, p99", None),
    ("files: 50,000 events/s batched, everything on", Bar("value", ">=", 50_000)),
    ("files: 100,000 events replayed", Bar("value", "<=", 10.0)),
    ("files: lookup by id in 1,000,000 events, median", Bar("value", "<=", 1.0)),
    ("files: stream head in 1,000,000 events, median", Bar("value", "<=", 1.0)),
    ("files: opening 1,000,000 events after a clean close", Bar("value", "<=", 1.0)),
    ("files: memory after opening 1,000,000 events", Bar("value", "<=", 100)),
    ("files: memory while replaying 1,000,000 events", Bar("value", "<=", 300)),
    ("files: disk bytes over canonical payload and meta bytes, 1 KB payloads", Bar("value", "<=", 1.2)),
]


def test_the_rate_of_a_live_projection_is_measured() -> None:
    """CP-08, CP-13: at least 20,000 events/s into view rows."""
    spec = SPECS["sqlite: live projection into view rows"]
    assert spec.bar == Bar("value", ">=", 20_000)
    assert {"CP-08", "CP-13"} <= set(spec.covers)


@pytest.mark.parametrize(("name", "bar"), PROMISED)
def test_what_is_promised_beside_peers_is_measured(name: str, bar: Bar) -> None:
    """Every promised ratio is a row with exactly that bar."""
    assert SPECS[name].bar == bar


@pytest.mark.parametrize(("name", "bar"), LH_18)
def test_every_figure_of_the_file_log_is_measured(name: str, bar: Bar | None) -> None:
    """LH-18: append, batch, replay, lookup, memory and overhead each have a row with the promised bar."""
    assert SPECS[name].bar == bar
    assert "LH-18" in SPECS[name].covers


def test_the_soak_measures_a_sustained_rate_and_flat_memory() -> None:
    """LH-18, LH-20: 10,000 events/s for minutes, many writers, memory flat, nothing lost."""
    from bench.soak import SPECS as SOAK

    bars = {spec.name: spec.bar for spec in SOAK}
    assert bars["soak: single acknowledged events, 64 tasks"] == Bar("value", ">=", 10_000)
    assert bars["soak: memory at the end, single events"] == Bar("ratio", "<=", 1.2)
    assert bars["soak: memory at the end, many writers mixed"] == Bar("ratio", "<=", 1.2)
    assert bars["soak: acknowledged events that are not there"] == Bar("value", "<=", 0)
    assert {"LH-18", "LH-20"} <= {requirement for spec in SOAK for requirement in spec.covers}


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
