"""Running tests in a forked child: pytest and the libraries are imported once, before, and tallystick in each child.

A child that was forked from a process with tallystick in it would test the old code: `prepare` looks.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import pytest_timeout
import xdist.plugin

LIBRARIES = ("pydantic", "hypothesis", "hypothesis.strategies", "click.testing", "orjson", "ormsgpack", "jsonschema")
WARM_UP = "import sys, tallystick.testing.contract, tallystick.cli.main; print(*sorted(sys.modules), sep='\\n')"
CPU_SECONDS_MAX = 60
SECONDS_MAX = 120.0
TEST_SECONDS_MAX = 20
PLUGINS = (pytest_timeout, xdist.plugin)
PASSED, FAILED, COLLECTION_FAILED, USAGE = 0, 1, 2, 4


class Run(msgspec.Struct, frozen=True):
    """How a run of some tests ended: whether one noticed something, whether it ran at all, and what it said."""

    failed: bool
    ran: bool
    said: str


def prepare(root: Path) -> None:
    """Import what tallystick imports from others, and what pytest needs."""
    done = subprocess.run([sys.executable, "-c", WARM_UP], cwd=root, capture_output=True, text=True, check=True)
    for name in ["_pytest.python", "_pytest.assertion.rewrite", *LIBRARIES, *done.stdout.split()]:
        if name.partition(".")[0] not in ("tallystick", "__main__", "tests"):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    if any(name.partition(".")[0] == "tallystick" for name in sys.modules):
        raise RuntimeError("tallystick is imported already: the children would not see the changed file")


def run_tests(root: Path, source: Path, tests: Sequence[str], said: Path) -> Run:
    """The tests, in this order until one fails, on the package in `source`."""
    child = os.fork()
    if child == 0:
        _be_child(root, source, tests, said)
    ended = status(child)
    text = said.read_text(encoding="utf-8", errors="replace")
    if ended is None or os.WIFSIGNALED(ended):
        return Run(True, True, "time ran out" if ended is None else f"signal {os.WTERMSIG(ended)}")
    code = os.waitstatus_to_exitcode(ended)
    failed = [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if code in (COLLECTION_FAILED, USAGE) and ("ERROR collecting" in text or "while loading conftest" in text):
        return Run(True, True, "a test file cannot be imported")
    if code in (FAILED, COLLECTION_FAILED):
        return Run(True, bool(failed), failed[0][:200] if failed else text[-400:])
    return Run(code != PASSED, code == PASSED, text[-400:])


def _be_child(root: Path, source: Path, tests: Sequence[str], said: Path) -> None:
    """Become a new process as far as tests can tell, and never return."""
    code = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS_MAX, CPU_SECONDS_MAX + 5))
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        enter(root, source)
        options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout", str(TEST_SECONDS_MAX)]
        code = int(pytest.main([*options, *tests], plugins=PLUGINS))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def enter(root: Path, source: Path) -> None:
    """Let this process and those that it starts import the package from `source`."""
    os.chdir(root)
    os.environ |= {"PYTHONPATH": f"{source}{os.pathsep}{root}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    sys.path[:0] = [str(source), str(root)]
    importlib.invalidate_caches()


def status(child: int) -> int | None:
    """How the child ended; nothing if its time ran out. What it started goes with it."""
    waiting = os.pidfd_open(child)
    try:
        ended = bool(select.select([waiting], [], [], SECONDS_MAX)[0])
    finally:
        os.close(waiting)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    code = os.waitpid(child, 0)[1]
    return code if ended else None
