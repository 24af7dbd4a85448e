"""Measuring: ratios, bars, turns."""

from __future__ import annotations

import pytest

from bench.harness import Bar, Row, Samples, Spec, alternate, latencies_ms, measures, percentile, run_cases
from bench.workshop import QUICK, Workshop


def row_with(value: float, against: float | None, bar: Bar | None) -> Row:
    return Spec(name="synthetic", unit="events/s", against="peer", bar=bar).row(value, against)


def test_a_ratio_is_ours_over_theirs() -> None:
    """80 against 100 is 0.8, whatever the unit."""
    assert row_with(80.0, 100.0, None).ratio == pytest.approx(0.8)


def test_without_a_peer_there_is_no_ratio() -> None:
    """A row that stands alone has no ratio, rather than one of 1."""
    assert row_with(80.0, None, None).ratio is None


@pytest.mark.parametrize(
    ("bar", "met"),
    [
        (Bar("ratio", ">=", 0.8), True),
        (Bar("ratio", ">=", 0.81), False),
        (Bar("ratio", "<=", 0.8), True),
        (Bar("ratio", "<=", 0.79), False),
        (Bar("value", ">=", 80), True),
        (Bar("value", ">=", 81), False),
        (Bar("value", "<=", 80), True),
        (Bar("value", "<=", 79), False),
        (None, True),
    ],
)
def test_a_bar_is_met_at_its_figure_and_missed_beyond_it(bar: Bar | None, met: bool) -> None:
    """The figure itself still counts, in both directions, for ratios and for values."""
    assert row_with(80.0, 100.0, bar).met is met


def test_a_bar_on_a_ratio_that_was_not_measured_is_missed() -> None:
    """A peer that did not run cannot have been beaten."""
    assert not row_with(80.0, None, Bar("ratio", ">=", 0.1)).met


def test_contenders_take_turns() -> None:
    """Each has one turn a round and begins one in turn, so that nobody gets the quiet part of the run for itself."""
    order: list[str] = []

    def turn(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = alternate({"ours": lambda: turn("ours"), "theirs": lambda: turn("theirs")}, rounds=3)
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert found["ours"].figures == [1.0, 4.0, 5.0]


def test_the_best_round_counts() -> None:
    """The best of a rate is the highest, the best of a time is the lowest."""
    samples = Samples([3.0, 9.0, 6.0])
    assert (samples.highest, samples.lowest) == (9.0, 3.0)
    assert "67%" in samples.spread


def test_a_percentile_is_a_figure_that_was_measured() -> None:
    """The median of one to a hundred is one of them, and the 100th percentile is the largest."""
    ascending = [float(number) for number in range(1, 101)]
    assert percentile(ascending, 0.5) == 51.0
    assert percentile(ascending, 1.0) == 100.0


def test_latencies_come_sorted_one_for_each_call() -> None:
    """Every call is timed, and percentiles can be read off."""
    calls: list[int] = []
    taken = latencies_ms(calls.append, count=20)
    assert calls == list(range(20))
    assert len(taken) == 20
    assert taken == sorted(taken)


def test_a_case_that_fails_misses_and_the_others_go_on() -> None:
    """One peer that does not start costs its own rows, not the run."""
    lost, kept = Spec(name="lost", unit="s"), Spec(name="kept", unit="s")

    def fail(workshop: Workshop) -> list[Row]:
        raise RuntimeError("no such peer")

    cases = [measures(lost)(fail), measures(kept)(lambda workshop: [kept.row(1.0)])]
    with Workshop(QUICK) as workshop:
        rows = list(run_cases(cases, workshop, wanted=lambda name: True))
    assert [(row.name, row.met) for row in rows] == [("lost", False), ("kept", True)]
    assert "no such peer" in rows[0].note


def test_only_wanted_rows_are_measured() -> None:
    """A case without a wanted row does not run at all."""
    one, two = Spec(name="one", unit="s"), Spec(name="two", unit="s")
    ran: list[str] = []

    def measure(workshop: Workshop) -> list[Row]:
        ran.append("one")
        return [one.row(1.0)]

    with Workshop(QUICK) as workshop:
        assert list(run_cases([measures(one)(measure)], workshop, wanted=lambda name: name == two.name)) == []
    assert ran == []
