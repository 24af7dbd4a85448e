"""Which tests `make test` runs, and how the tests are shared among workers.

`make test` leaves out what is marked `heavy`: what `HEAVY` lists except the files in `LIGHT`, files that kill
processes, and tests that carry the mark. Starting Spark costs more than most of its tests, so all of them go to one
worker; so do those that need a browser. Other workers get a file at a time. What takes long comes first.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/pipeline/", "tests/console/")
FIRST = ("tests/pipeline/", "tests/demo/", "tests/crash/", "tests/server_ops/", "tests/console/")
HEAVY = (
    "tests/bench/",
    "tests/console/",
    "tests/crash/",
    "tests/demo/",
    "tests/mutants/",
    "tests/pipeline/",
    "tests/torture/",
    "tests/files/test_pruned_as_in_memory.py",  # the rest: random histories, races, faults at every operation
    "tests/ndjson/test_crash_states.py",
    "tests/ndjson/test_nth_fault.py",
    "tests/postgres/test_failover.py",
    "tests/postgres/test_race.py",
    "tests/server/test_schema.py",
    "tests/server_ops/test_schema.py",
    "tests/state/test_replay_equivalence.py",
)
LIGHT = ("test_dirsync_order.py", "test_disk_cases.py", "test_laboratory.py", "test_torn_tail.py")


def pytest_configure() -> None:
    """Accept Ctrl-C again: a shell that starts the tests in the background ignores it for them and their children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Shares(LoadScopeScheduling):
    """Gives whole files to workers, and whole directories where `TOGETHER` says so."""

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares | None:
    """Use `Shares`, unless another way was asked for."""
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # in the order of the items, which is ours
    return Shares(config, log)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is heavy, and put first what takes long, so that no worker is left alone with it."""
    for item in items:
        is_large = item.nodeid.startswith(HEAVY) and item.path.name not in LIGHT
        if is_large or "kill" in item.path.name or item.get_closest_marker("slow"):
            item.add_marker("heavy")
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    """The index of its directory in the list; then files that kill processes; then the others."""
    for number, place in enumerate(FIRST):
        if item.nodeid.startswith(place):
            return number
    return len(FIRST) if "kill" in item.nodeid else len(FIRST) + 1
