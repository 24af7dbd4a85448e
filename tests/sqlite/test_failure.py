"""The disk fails or fills up under a running writer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tallystick.store.verify import verify

_COMMON = """
import json, os, resource, sys, tallystick
from tallystick import NewEvent, errors
path = sys.argv[1]
store = tallystick.open("sqlite:" + path)
acknowledged = []
def append(size=4000):
    try:
        acknowledged.append(store.append("order/a", NewEvent("thing.done", {"text": "x" * size})).position)
        return "appended"
    except errors.TallyError as problem:
        return type(problem).__name__
said = [append() for _ in range(3)]
"""
_FILE_SIZE = """
now = os.path.getsize(path + "-wal")
resource.setrlimit(resource.RLIMIT_FSIZE, (now + 20_000, resource.RLIM_INFINITY))
said += [append(60_000)]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
_FAILED_SYNC = """
flag = os.environ["TALLY_FAIL_SYNC"]
open(flag, "w").close()
said += [append()]
os.unlink(flag)
"""
_FAILED_MAINTENANCE = """
from tallystick.testing import upkeep
flag = os.environ["TALLY_FAIL_SYNC"]
open(flag, "w").close()
try:
    upkeep.prune(store, "order/a", 2)
    said += ["pruned"]
except errors.TallyError as problem:
    said += [type(problem).__name__]
os.unlink(flag)
"""
_GOES_ON = """
said += [append(), append()]
readable = len(store.read(over_pruned=True).events)
store.close()
store = tallystick.open("sqlite:" + path)
said += [append()]
events = [event.position for event in store.events(over_pruned=True)]
store.close()
print(json.dumps({"said": said, "acknowledged": acknowledged, "readable": readable, "events": events}))
"""
_NO_ROOM = """
ballast = path + ".ballast"
with open(ballast, "wb", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 4096)
    except OSError:
        pass
first = append(300_000)
count = len(acknowledged)
full = [append(300_000) for _ in range(3)]
readable = len(store.read().events)
os.unlink(ballast)
said += [first, *full, append(), append()]
print(json.dumps({"said": said, "acknowledged": acknowledged, "readable": readable, "count": count,
    "events": [event.position for event in store.events()], "free": store.report().facts["free_bytes"]}))
store.close()
"""


def _answer(child) -> dict:
    out, problem = child.communicate(timeout=120)
    assert child.returncode == 0, problem
    return json.loads(out)


def _assert_poisoned_until_reopened(found: dict) -> None:
    appended, failed = "appended", "StoreFailed"
    assert found["said"] == [appended, appended, appended, failed, failed, failed, appended]
    assert found["readable"] == 3  # reads went on
    assert set(found["acknowledged"]) <= set(found["events"])
    assert len(found["events"]) <= len(found["acknowledged"]) + 1  # the failed one may be there or not


def test_a_failed_write_poisons_the_writer(path, spawn, reopen):
    """LH-16, settled 16: after a write error nothing is acknowledged until the store is opened again."""
    found = _answer(spawn(_COMMON + _FILE_SIZE + _GOES_ON, path))
    _assert_poisoned_until_reopened(found)
    assert verify(reopen().log).problems == []


@pytest.fixture
def failing_syncs(tmp_path) -> dict[str, str]:
    """An environment in which every sync fails while a file exists."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build the library that makes syncs fail")
    library = tmp_path / "sync_fails.so"
    source = Path(__file__).with_name("sync_fails.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return os.environ | {"LD_PRELOAD": str(library), "TALLY_FAIL_SYNC": str(tmp_path / "fail")}


def test_a_failed_sync_poisons_the_writer(path, spawn, reopen, failing_syncs):
    """LH-16, settled 16: SQLite itself would acknowledge the next commit after a failed fsync; the store does not."""
    found = _answer(spawn(_COMMON + _FAILED_SYNC + _GOES_ON, path, env=failing_syncs))
    _assert_poisoned_until_reopened(found)
    assert verify(reopen().log).problems == []


def test_a_failed_sync_of_maintenance_poisons_appends_too(path, spawn, reopen, failing_syncs):
    """Settled 16, EVT-07: both connections write one file, and neither continues after a failed sync."""
    found = _answer(spawn(_COMMON + _FAILED_MAINTENANCE + _GOES_ON, path, env=failing_syncs))
    assert found["said"] == ["appended"] * 3 + ["StoreFailed"] * 3 + ["appended"]
    assert found["readable"] in (2, 3)  # the prune and its fact, or neither: reads went on
    assert len(found["events"]) in (3, 4)
    assert verify(reopen().log).problems == []


def test_a_full_disk_refuses_and_recovers_by_itself(tmp_path, spawn):
    """LH-16, settled 16: on a full disk a commit is rolled back and reads continue. With space, appends work again."""
    mount = f'mount -t tmpfs -o size=2m tmpfs {tmp_path} && exec "$@"'
    unshare = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh")
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    found = _answer(spawn(_COMMON + _NO_ROOM, str(tmp_path / "log.db"), before=unshare))
    assert found["said"] == ["appended"] * 3 + ["NoSpace"] * 4 + ["appended"] * 2
    assert found["readable"] == found["count"] == 3
    assert found["events"] == found["acknowledged"] == [1, 2, 3, 4, 5]
