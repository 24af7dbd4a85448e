"""A pytest plugin: says which test runs which line, and how long each takes. For `python -m tests.mutants`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

_seconds: dict[str, float] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What runs now belongs to this test."""
    current = coverage.Coverage.current()
    if current is not None:
        current.switch_context(item.nodeid)
    return (yield)


def pytest_runtest_logreport(report: Any) -> None:
    """A test that failed or was skipped says nothing about a mutant."""
    if not report.passed:
        _seconds[report.nodeid] = -1.0
    elif _seconds.get(report.nodeid, 0.0) >= 0:
        _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish() -> None:
    """Write the times down."""
    Path(os.environ["TALLY_MUTANTS_TIMES"]).write_text(json.dumps(_seconds))
