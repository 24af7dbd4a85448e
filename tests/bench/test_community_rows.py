"""The promised figures are measured: each has a row in `make bench` with its bar."""

from __future__ import annotations

import pytest

from bench.harness import Bar
from bench.rows import CASES

SPECS = {spec.name: spec for case in CASES for spec in case.specs}

PROMISED = [
    ("community: received events, verified and stored, batches of 1,000", Bar("value", ">=", 8000)),
    ("community: reconciling 1,000,000 items that differ in 100", Bar("value", "<=", 1.5)),
    ("community: bytes of reconciling 1,000,000 items that differ in 100", Bar("value", "<=", 200)),
    ("community: joining 200,000 events with a snapshot", Bar("ratio", ">=", 10)),
]


@pytest.mark.parametrize(("name", "bar"), PROMISED)
def test_every_figure_of_communities_is_measured(name: str, bar: Bar) -> None:
    """COM-03, COM-09, COM-10: taking events, finding differences, and joining with a snapshot have their bars."""
    assert SPECS[name].bar == bar
    assert SPECS[name].covers
