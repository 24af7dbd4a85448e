"""Running mutants: each in a copy of the sources, against the tests that run its line, the most telling ones first.

A mutant survived only if every test that runs its line passed. If the budget ends before, it is undecided, and what
passed so far is remembered: the next visit goes on with the others, and so does one after tests were added.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import msgspec

from . import forked
from .covering import Covering, digest_of, selectable
from .forked import Run, Task
from .sites import Site, mutated
from .uses import places
from .warm import Order, Warm

STAGES = (4, 30, 300)  # so many tests at a time: those that a killed mutant does not need are not even collected
KILLED, SURVIVED, UNDECIDED = "killed", "survived", "undecided"
NOT_RUN, BROKEN = "no test runs it", "the runner broke"
FIRST_SECONDS = 3.0
_ticks = count(1)


class Result(msgspec.Struct, frozen=True):
    """What became of a mutant, of which text, which test noticed, and which tests did not (by their marks)."""

    site: Site
    outcome: str
    text: str
    by: str = ""
    passed: Sequence[int] = ()

    @property
    def test(self) -> str:
        """The test that noticed, if one is named."""
        return self.by.partition(" - ")[0] if "::" in self.by else ""


class Overlay:
    """A copy of the package in which one file at a time is changed."""

    def __init__(self, root: Path, groups: Sequence[str]) -> None:
        self._root = root
        self.place = Path(tempfile.mkdtemp(prefix="mutants-"))
        skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(root / "src", self.place / "src", ignore=skipped)
        self._warm = Warm(root, self.place / "src", groups)

    def judged(self, site: Site, tasks: Sequence[Task], seconds_max: float) -> Run:
        """Change the file, run the tests until one fails or the budget is used, and put the file back."""
        passed: list[str] = []
        while True:
            with self._changed(site.path, lambda text: mutated(text, site)) as (path, text):
                run = self._run(Order(tasks, seconds_max, path, text), range(site.line, site.end_line + 1))
            passed += run.passed
            slow = [task for task in tasks if task.name == run.slow]
            if not slow:
                return msgspec.structs.replace(run, passed=passed)
            if self.run(slow).passed:
                return Run(passed, failed=f"{run.slow} - it fails or takes too long, and neither without the change")
            done = {run.slow, *run.passed}  # what the machine is too slow for says nothing: the others do
            tasks = [task for task in tasks if task.name not in done]

    def tried(self, path: str, change: Callable[[str], str], tests: Sequence[str]) -> Run:
        """All tests of these files, on a change that may be anywhere."""
        with self._changed(path, change):
            return forked.run_tests(self._root, self.place / "src", (), tests, math.inf)

    @contextmanager
    def _changed(self, name: str, change: Callable[[str], str]) -> Iterator[tuple[Path, str]]:
        path = self.place / name
        text = path.read_text(encoding="utf-8")
        try:
            changed = change(text)
            self._write(path, changed)
            yield path, changed
        finally:
            self._write(path, text)

    def _run(self, order: Order, lines: range) -> Run:
        assert order.path is not None
        if self._warm.knows(order.path, lines):
            return self._warm.run(order) or self._cold(order)
        run = self._warm.run(msgspec.structs.replace(order, seconds_max=FIRST_SECONDS))
        return run if run is not None and (run.failed or run.slow) else self._cold(order)

    def run(self, tasks: Sequence[Task]) -> Run:
        """The tests on the package as it is."""
        return self._warm.run(Order(tasks, math.inf)) or Run()

    def _cold(self, order: Order) -> Run:
        """The tests in a process that imports the package again."""
        passed: list[str] = []
        left, names = order.seconds_max, list(dict.fromkeys(selectable(task.name) for task in order.tasks))
        for stage in _stages(names):
            run = forked.run_tests(self._root, self.place / "src", order.tasks, stage, left)
            passed += run.passed
            left -= sum(task.cpu_max - forked.CPU_SECONDS for task in order.tasks if task.name in set(run.passed)) / 5
            if run.failed or run.slow or run.broke or left <= 0:
                return msgspec.structs.replace(run, passed=passed)
        return Run(passed)

    def _write(self, path: Path, text: str) -> None:
        """Every text gets a time of its own: compiled files are told apart by time and size."""
        path.write_text(text, encoding="utf-8")
        moment = 1_000_000_000 + next(_ticks)
        os.utime(path, (moment, moment))

    def remove(self) -> None:
        """End the process and give the room back."""
        self._warm.close()
        shutil.rmtree(self.place)


def _stages(tests: Sequence[str]) -> Iterator[Sequence[str]]:
    sizes = iter(STAGES)
    begin = 0
    while begin < len(tests):
        size = next(sizes, STAGES[-1])
        yield tests[begin : begin + size]
        begin += size


class Campaign:
    """The mutants' results as they are known, and what is to be done for those that are not decided."""

    def __init__(self, known: Covering, texts: Mapping[str, str], kept: Sequence[Result]) -> None:
        self._known, self._texts = known, texts
        self._now = {path: digest_of(text) for path, text in texts.items()}
        self._results: dict[str, Result] = {}
        self._places: dict[str, Sequence[tuple[str, int]]] = {}
        self._kills: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for result in kept:
            if self._now.get(result.site.path) == result.text and (not result.test or result.test in known.costs):
                self.take(result)

    def take(self, result: Result) -> None:
        """Remember a result; tests that killed mutants of the same function or file run first from now on."""
        self._results[result.site.key] = result
        if result.outcome == KILLED and result.test:
            self._kills[result.site.path][result.test] += 1
            self._kills[_function(result.site)][result.test] += 5

    def left(self, site: Site) -> list[str]:
        """The tests that have still to be run, those that promise most first."""
        kills = self._kills[site.path] + self._kills[_function(site)]
        about = _function(site).removeprefix("src/tallystick/")
        return self._known.ordered(self._tests(site), about=about, kills=kills)

    def _tests(self, site: Site) -> set[str]:
        """The tests of its line that were not run yet; none if one noticed."""
        result = self._results.get(site.key)
        if result is not None and result.outcome == KILLED:
            return set()
        if site.key not in self._places:
            self._places[site.key] = places(site, self._texts, self._known)
        passed = set(result.passed) if result is not None else set()
        return {name for name in self._known.of(self._places[site.key]) if self._known.marks[name] not in passed}

    def open(self, site: Site) -> bool:
        """Whether there is anything to do: it was never tried, or tests are left."""
        return site.key not in self._results or bool(self._tests(site))

    def last(self, site: Site) -> Result | None:
        """What the last visit found."""
        return self._results.get(site.key)

    def of(self, site: Site) -> Result | None:
        """What is known of a mutant: nothing if it was not tried, undecided if tests are left."""
        result = self._results.get(site.key)
        if result is None or result.outcome in (KILLED, BROKEN):
            return result
        outcome = UNDECIDED if self._tests(site) else SURVIVED if result.passed else NOT_RUN
        return msgspec.structs.replace(result, outcome=outcome)

    def judged(self, site: Site, overlay: Overlay, seconds_max: float) -> Result:
        """Run the tests that are left, within a budget."""
        before, left = self._results.get(site.key), self.left(site)
        run = overlay.judged(site, self.tasks(left), seconds_max) if left else Run()
        passed = {self._known.marks[name] for name in run.passed if name in self._known.marks}
        passed.update(before.passed if before is not None else ())
        outcome = (
            KILLED if run.failed else BROKEN if run.broke else UNDECIDED if set(left) - set(run.passed) else SURVIVED
        )
        if outcome == SURVIVED and not passed:
            outcome = NOT_RUN
        marks = () if outcome == KILLED else sorted(passed)
        result = Result(site, outcome, self._now[site.path], run.failed or run.broke, marks)
        self.take(result)
        return result

    def tasks(self, names: Sequence[str]) -> list[Task]:
        """These tests, with what they may take."""
        return [forked.task(name, *self._known.costs[name]) for name in names]


def _function(site: Site) -> str:
    return f"{site.path} {site.scope}"


def unsound(overlay: Overlay, tasks: Sequence[Task]) -> list[str]:
    """Tests of these that fail on the code as it is, run in the same way: they count for nothing."""
    failing = []
    left = list(tasks)
    while left:
        run = overlay.run(left)
        wrong = run.failed.partition(" - ")[0] or run.slow
        if not wrong:
            break
        failing.append(wrong)
        done = {*run.passed, wrong}
        left = [task for task in left if task.name not in done]
    return failing
