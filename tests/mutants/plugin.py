"""A pytest plugin: says which test runs which line, and what each costs. For `python -m tests.mutants`."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

_costs: dict[str, tuple[float, float]] = {}
_failed: set[str] = set()
_skipped: set[str] = set()
_process = os.getpid()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What runs now belongs to this test: its lines, its seconds of the processor and of the clock."""
    current = coverage.Coverage.current()
    if current is not None:
        current.switch_context(item.nodeid)
    cpu, wall = cpu_seconds(), time.monotonic()
    outcome = yield
    _costs[item.nodeid] = (cpu_seconds() - cpu, time.monotonic() - wall)
    return outcome


def cpu_seconds() -> float:
    """What this process and the children that it waited for took of the processor."""
    took = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in took)


def pytest_runtest_logreport(report: Any) -> None:
    """A test that failed or was skipped says nothing about a mutant."""
    if not report.passed:
        (_failed if report.failed else _skipped).add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write the costs down. A process that a test forked is none of it."""
    if os.getpid() != _process:
        return
    passed = {name: cost for name, cost in _costs.items() if name not in _failed | _skipped}
    found = {"passed": passed, "failed": sorted(_failed)}
    Path(os.environ["TALLY_MUTANTS_COSTS"]).write_text(json.dumps(found))
