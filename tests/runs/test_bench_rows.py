"""The figures of runs are measured: each promise is a row of the benchmark with exactly its bar."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)

from bench.harness import Bar  # noqa: E402
from bench.rows import CASES  # noqa: E402

SPECS = {spec.name: spec for case in CASES for spec in case.specs}


@pytest.mark.parametrize(
    ("name", "bar", "against"),
    [
        ("runs: a node that does nothing, of 1,000", Bar("ratio", "<=", 1.0), "DBOS"),
        ("runs: a node of 4,000 over a node of 500", Bar("value", "<=", 1.25), None),
        ("runs: resume of a 10,000-node run", Bar("value", "<=", 1.0), None),
    ],
)
def test_what_is_promised_of_runs_is_measured(name: str, bar: Bar, against: str | None) -> None:
    """RUN-05: the cost of a node beside DBOS, that it does not grow, and the time of a resume."""
    assert (SPECS[name].bar, SPECS[name].against) == (bar, against)
    assert SPECS[name].note
