"""Running tests in forks of a process that has imported the package and collected the tests: a mutant costs no more.

This is for changes inside functions. If such a function was called while the package was imported, `Warm.knows` is
false: then only a failed test counts, because what was made at import is as it was.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Any

import coverage
import msgspec
import pytest

from . import forked, swapped
from .forked import Guard, Run, Task


class Order(msgspec.Struct, frozen=True):
    """Which tests to run, in this order until one fails, on which change, and in how many seconds of the processor."""

    tasks: Sequence[Task]
    seconds_max: float
    path: Path | None = None
    text: str = ""


class Warm:
    """The process that has everything imported and collected, seen from the one that gives it orders."""

    def __init__(self, root: Path, source: Path, groups: Sequence[str]) -> None:
        self._line, far = connection.Pipe()
        self._process = os.fork()
        if self._process == 0:
            self._line.close()
            _serve(root, source, groups, far)
        far.close()
        self._imported: dict[str, set[int]] = self._line.recv()

    def knows(self, path: Path, lines: range) -> bool:
        """Whether no line of these ran while the package was imported or the tests were collected."""
        return not self._imported.get(str(path), set()).intersection(lines)

    def run(self, order: Order) -> Run | None:
        """How the tests ended; nothing if no function changed."""
        self._line.send(order)
        answer: Run | None = self._line.recv()
        return answer

    def close(self) -> None:
        """End the process, and what it has under way."""
        self._line.close()
        os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)


def _serve(root: Path, source: Path, groups: Sequence[str], line: Any) -> None:
    """Collect, then take orders until nobody is there to give any; never return."""
    signal.signal(signal.SIGTERM, forked.stopped)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        said = os.open(source.parent / "collected", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        forked.enter(root, source)
        watch = coverage.Coverage(data_file=None, source=[str(source)])
        watch.start()
        options = ["-q", "-s", "-m", "not slow", "--continue-on-collection-errors", *forked.OPTIONS]
        pytest.main([*options, *groups], plugins=[*forked.PLUGINS, Server(source, watch, line)])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


class Server:
    """A pytest plugin: instead of running the tests it takes orders."""

    def __init__(self, source: Path, watch: coverage.Coverage, line: Any) -> None:
        self._source, self._watch, self._line = source, watch, line

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run each order in a fork."""
        self._watch.stop()
        data = self._watch.get_data()
        self._line.send({name: set(data.lines(name) or ()) for name in data.measured_files()})
        items = {item.nodeid: item for item in session.items}
        known = swapped.functions(self._source)
        gc.collect()
        gc.freeze()
        while True:
            try:
                order = self._line.recv()
            except EOFError:
                return True
            self._line.send(self._answer(order, items, known))

    def _answer(self, order: Order, items: dict[str, pytest.Item], known: swapped.Functions) -> Run | None:
        if order.path is not None and not swapped.changes(known, order.path, order.text):
            return None
        tasks = [task for task in order.tasks if task.name in items]
        place = Path(tempfile.mkdtemp(prefix="run-", dir=self._source.parent))
        try:
            notes = place / "notes"
            notes.write_text("")
            child = os.fork()
            if child == 0:
                _be_child(msgspec.structs.replace(order, tasks=tasks), items, known, place)
            return forked.ended(child, tasks, notes, place / "said")
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _be_child(order: Order, items: dict[str, pytest.Item], known: swapped.Functions, place: Path) -> None:
    """Change the functions, run the tests, and never return."""
    code = 70
    try:
        forked.begin(place / "said")
        tempfile.tempdir = str(place)
        os.environ["TMPDIR"] = str(place)
        if order.path is not None:
            swapped.swap(known, order.path, order.text)
        guard = Guard(order.tasks, order.seconds_max, place / "notes")
        chosen = [items[task.name] for task in order.tasks]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            if not item.config.pluginmanager.is_registered(guard):
                item.config.pluginmanager.register(guard)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if guard.over:
                break
        code = forked.PASSED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
