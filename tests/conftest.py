"""What goes to one worker of a parallel run: tests that share something dear to start."""

from __future__ import annotations

import pytest

TOGETHER = {"pipeline": "spark", "console": "browser"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker have all tests of Spark, one all of the browser, and begin with them, since they take longest."""
    for item in items:
        if (group := TOGETHER.get(_theme(item))) is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: _theme(item) not in TOGETHER)


def _theme(item: pytest.Item) -> str:
    """The directory under tests/ that a test stands in."""
    place = item.nodeid.partition("::")[0].split("/")
    return place[1] if place[0] == "tests" and len(place) > 2 else ""
