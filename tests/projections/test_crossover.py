"""Where Spark overtakes one process, computed from measured costs."""

from __future__ import annotations

import pytest

from tallystick.cli import placing
from tallystick.projections import crossover


def test_more_cores_meet_earlier_and_too_few_never() -> None:
    """PIPE-04: at the crossover both take the same time; with cores that gain nothing there is none."""
    assert crossover.crossover_events(1) == crossover.NEVER
    found = [crossover.crossover_events(cores) for cores in (4, 8, 16)]
    assert found == sorted(found, reverse=True)
    alone = found[1] * crossover.PROCESS_US
    assert alone == pytest.approx(crossover.START_S * 1e6 + found[1] * crossover.SPARK_US / 8)


def test_where_spark_never_wins_one_process_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-04: however large the log is, and the reason names no number that means nothing."""
    monkeypatch.setattr(crossover, "CROSSOVER_EVENTS", crossover.NEVER)
    chosen = placing.choose("auto", object(), events=10**12, archive=None)
    assert chosen == placing.Choice(placing.PROCESS, "with the cores of this machine Spark is never faster")
