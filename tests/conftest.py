"""How the tests are shared among workers: a file at a time, what takes long first, and what is dear to start once.

Starting Spark costs more than most of its tests, so all of them go to one worker; so do those that need a browser.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/pipeline/", "tests/console/")
FIRST = ("tests/pipeline/", "tests/demo/", "tests/crash/", "tests/server_ops/", "tests/console/")


def pytest_configure() -> None:
    """Take Ctrl-C again: a shell that starts the tests in the background has them ignore it, and their children too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Shares(LoadScopeScheduling):
    """Gives whole files to workers, and whole directories where `TOGETHER` says so."""

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares | None:
    """Shares files, unless another way was asked for."""
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # in the order of the items, which is ours
    return Shares(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first, so that no worker is left alone with it."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    """Where its directory stands in the list; then files that kill processes; then the others."""
    for number, place in enumerate(FIRST):
        if item.nodeid.startswith(place):
            return number
    return len(FIRST) if "kill" in item.nodeid else len(FIRST) + 1
