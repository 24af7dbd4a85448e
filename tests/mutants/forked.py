"""Running tests in a forked child: what it may take, how its end is read, and one that imports the package again.

A slow machine changes no verdict. Time of the processor is what counts: a test may take `TIMES` as much as it takes
otherwise. The clock ends a test only if nothing else does. What was ended for its time, or failed after it took longer
than `PATIENT_SECONDS`, is tried without the change: it may have a limit of its own on the clock.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_timeout
import xdist.plugin

from .plugin import cpu_seconds

LIBRARIES = ("pydantic", "hypothesis", "hypothesis.strategies", "click.testing", "orjson", "ormsgpack", "jsonschema")
WARM_UP = "import sys, tallystick.testing.contract, tallystick.cli.main; print(*sorted(sys.modules), sep='\\n')"
TIMES = 5
CPU_SECONDS, WALL_SECONDS = 2.0, 40.0  # what every test may take, however quick it is otherwise
PATIENT_SECONDS = 4.0
COLLECTING_SECONDS = 300.0
UNKNOWN_SECONDS = 120.0  # of the processor, for a test that was never measured
PLUGINS = (pytest_timeout, xdist.plugin)
OPTIONS = ("-p", "no:cacheprovider", "--timeout", "0")
PASSED, FAILED, COLLECTION_FAILED, USAGE = 0, 1, 2, 4


class Task(msgspec.Struct, frozen=True):
    """A test, and what it may take of the processor and of the clock."""

    name: str
    cpu_max: float
    wall_max: float


class Run(msgspec.Struct, frozen=True):
    """How a run of some tests ended: what passed, what noticed something, what was ended for its time, what broke."""

    passed: Sequence[str] = ()
    failed: str = ""
    slow: str = ""  # a test that was ended, or that took long before it failed
    broke: str = ""


def task(name: str, cpu: float, wall: float) -> Task:
    """A test that takes so much on the code as it is."""
    return Task(name, CPU_SECONDS + TIMES * cpu, WALL_SECONDS + TIMES * wall)


def prepare(root: Path) -> None:
    """Import what tallystick imports from others, and what pytest needs."""
    done = subprocess.run([sys.executable, "-c", WARM_UP], cwd=root, capture_output=True, text=True, check=True)
    for name in ["_pytest.python", "_pytest.assertion.rewrite", *LIBRARIES, *done.stdout.split()]:
        if name.partition(".")[0] not in ("tallystick", "__main__", "tests"):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    if any(name.partition(".")[0] == "tallystick" for name in sys.modules):
        raise RuntimeError("tallystick is imported already: the children would not see the changed file")


class Guard:
    """A pytest plugin in the child: limits each test, notes at once how it ended, and stops when the budget is used."""

    def __init__(self, tasks: Sequence[Task], seconds_max: float, notes: Path) -> None:
        self._limits = {each.name: each.cpu_max for each in tasks}
        self._most = max((each.cpu_max for each in tasks), default=UNKNOWN_SECONDS)
        self._end = cpu_seconds() + seconds_max
        self._notes = notes.open("a", buffering=1, encoding="utf-8")
        self._failure = ""
        self.over = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """One test, between two notes."""
        self._notes.write(f"begin {item.nodeid}\n")
        began = time.monotonic()
        used = time.process_time() + self._limits.get(item.nodeid, self._most)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used), resource.RLIM_INFINITY))
        outcome = yield
        slow = time.monotonic() - began > PATIENT_SECONDS
        said = f"{'failed slowly' if slow else 'failed'} {self._failure}" if self._failure else f"passed {item.nodeid}"
        self._notes.write(f"{said}\n")
        self.over = bool(self._failure) or cpu_seconds() >= self._end
        if self.over:
            item.session.shouldstop = "enough"
        return outcome

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Remember what failed."""
        if report.failed and not self._failure:
            message = getattr(getattr(report.longrepr, "reprcrash", None), "message", "") or report.when
            self._failure = f"{report.nodeid} - {message.splitlines()[0] if message else ''}"[:200]


def run_tests(root: Path, source: Path, tasks: Sequence[Task], names: Sequence[str], seconds_max: float) -> Run:
    """The tests, in this order until one fails or the budget is used, on the package in `source`, imported again."""
    said, notes = source.parent / "said", source.parent / "notes"
    notes.write_text("")
    child = os.fork()
    if child == 0:
        _be_child(root, source, Guard(tasks, seconds_max, notes), names, said)
    return ended(child, tasks, notes, said)


def _be_child(root: Path, source: Path, guard: Guard, names: Sequence[str], said: Path) -> None:
    """Become a new process as far as tests can tell, and never return."""
    code = 70
    try:
        begin(said)
        enter(root, source)
        code = int(pytest.main(["-q", *OPTIONS, *names], plugins=[*PLUGINS, guard]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def begin(said: Path) -> None:
    """Leave the parent's session, write into a file, and dump no core when a limit ends the process."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for standard in (1, 2):
        os.dup2(file, standard)


def enter(root: Path, source: Path) -> None:
    """Let this process and those that it starts import the package from `source`."""
    os.chdir(root)
    os.environ |= {"PYTHONPATH": f"{source}{os.pathsep}{root}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    sys.path[:0] = [str(source), str(root)]
    importlib.invalidate_caches()


def ended(child: int, tasks: Sequence[Task], notes: Path, said: Path) -> Run:
    """Wait for the child, and say what its notes and its status mean."""
    status = _status(child, {each.name: each.wall_max for each in tasks}, notes)
    lines = notes.read_text("utf-8", "replace").splitlines()
    passed = [line.partition(" ")[2] for line in lines if line.startswith("passed ")]
    failed = next((line.partition(" ")[2] for line in lines if line.startswith("failed ")), "")
    last = lines[-1].partition(" ")[2] if lines and lines[-1].startswith("begin ") else ""
    if failed.startswith("slowly "):
        return Run(passed, slow=failed.removeprefix("slowly ").partition(" - ")[0])
    if failed:
        return Run(passed, failed=failed)
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return Run(passed, slow=last, broke="" if last else "no test began in time")
    if os.WIFSIGNALED(status) or (last and os.waitstatus_to_exitcode(status) != PASSED):
        how = f"the process ended with status {status}"
        return Run(passed, failed=f"{last} - {how}") if last else Run(passed, broke=how)
    text = said.read_text("utf-8", "replace")
    code = os.waitstatus_to_exitcode(status)
    if code in (COLLECTION_FAILED, USAGE) and ("ERROR collecting" in text or "while loading conftest" in text):
        return Run(passed, failed="a test file cannot be imported")
    return Run(passed, broke="" if code in (PASSED, COLLECTION_FAILED) else text[-400:])


def _status(child: int, walls: dict[str, float], notes: Path) -> int | None:
    """How the child ended; nothing if one test took too long. What it started goes with it."""
    waiting = os.pidfd_open(child)
    text, since, over = "", time.monotonic(), True
    try:
        while not select.select([waiting], [], [], 1.0)[0]:
            now = notes.read_text("utf-8", "replace")
            text, since = now, time.monotonic() if now != text else since
            current = text.rpartition("begin ")[2].strip()
            if time.monotonic() > since + walls.get(current, COLLECTING_SECONDS):
                break
        over = not select.select([waiting], [], [], 0)[0]
    finally:
        os.close(waiting)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        code = os.waitpid(child, 0)[1]
    return None if over else code


def stopped(number: int, frame: object) -> None:
    """End what is under way in an orderly manner."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
