"""Running mutants: each in a copy of the sources, against the tests that run its line, the most telling ones first."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

import msgspec

from . import forked
from .covering import Covering, selectable
from .sites import Site, mutated
from .uses import places
from .warm import Order, Warm

CPU_SECONDS = 5
STAGES = (4, 30, 400)  # so many tests at a time: those that a killed mutant does not need are not even collected
KILLED, SURVIVED, NOT_RUN, BROKEN = "killed", "survived", "no test runs it", "the runner broke"
BATCH = 20
_ticks = count(1)


class Result(msgspec.Struct, frozen=True):
    """What became of a mutant, of which text, and which test noticed."""

    site: Site
    outcome: str
    text: str
    by: str = ""

    @property
    def test(self) -> str:
        """The test that noticed, if one is named."""
        return self.by.partition(" - ")[0].partition(" ")[2] if "::" in self.by else ""


class Overlay:
    """A copy of the package in which one file at a time is changed."""

    def __init__(self, root: Path, groups: Sequence[str]) -> None:
        self._root = root
        self.place = Path(tempfile.mkdtemp(prefix="mutants-"))
        skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(root / "src", self.place / "src", ignore=skipped)
        self._warm = Warm(root, self.place / "src", groups)

    def judged(self, site: Site, tests: Sequence[str], seconds: float) -> Result:
        """Change the file, run the tests until one fails, and put the file back."""
        path = self.place / site.path
        text = path.read_text(encoding="utf-8")
        digest = digest_of(text)
        try:
            changed = mutated(text, site)
            self._write(path, changed)
            run = self._warm.run(Order(tests, CPU_SECONDS + round(2 * seconds), path, changed))
            if run is None or not (run.failed or self._warm.knows(path, range(site.line, site.end_line + 1))):
                run = self._cold(tests)
            outcome = BROKEN if not run.ran else KILLED if run.failed else SURVIVED
            return Result(site, outcome, digest, "" if outcome == SURVIVED else run.said)
        finally:
            self._write(path, text)

    def run(self, tests: Sequence[str]) -> forked.Run:
        """The tests on the package as it is."""
        return self._warm.run(Order(tests, forked.CPU_SECONDS_MAX)) or self._cold(tests)

    def _cold(self, tests: Sequence[str]) -> forked.Run:
        """The tests in a process that imports the package again."""
        run = forked.Run(False, True, "")
        for stage in _stages(list(dict.fromkeys(map(selectable, tests)))):
            run = forked.run_tests(self._root, self.place / "src", stage, self.place / "said")
            if run.failed or not run.ran:
                break
        return run

    def _write(self, path: Path, text: str) -> None:
        """Every text gets a time of its own: compiled files are told apart by time and size."""
        path.write_text(text, encoding="utf-8")
        moment = 1_000_000_000 + next(_ticks)
        os.utime(path, (moment, moment))

    def remove(self) -> None:
        """End the process and give the room back."""
        self._warm.close()
        shutil.rmtree(self.place)


def digest_of(text: str) -> str:
    """What tells one text of a file from another."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _stages(tests: Sequence[str]) -> Iterator[Sequence[str]]:
    begin = 0
    for size in STAGES:
        if begin < len(tests):
            yield tests[begin : begin + size]
        begin += size


def run(
    root: Path,
    chosen: Sequence[Site],
    known: Covering,
    texts: Mapping[str, str],
    groups: Sequence[str],
    *,
    seconds_max: float,
    before: Sequence[Result] = (),
) -> Iterator[Result]:
    """The result of each mutant, as they come. Tests that killed mutants of the same function or file run first."""
    kills: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for result in before:
        _count(kills, result)
    overlay = Overlay(root, groups)
    try:
        for site in chosen:
            likely = kills[site.path] + kills[_function(site)]
            about = _function(site).removeprefix("src/tallystick/")
            tests = known.of(places(site, texts, known), about=about, kills=likely, seconds_max=seconds_max)
            seconds = sum(known.seconds[name] for name in tests)
            result = overlay.judged(site, tests, seconds) if tests else _not_run(site, texts)
            _count(kills, result)
            yield result
    finally:
        overlay.remove()


def _not_run(site: Site, texts: Mapping[str, str]) -> Result:
    return Result(site, NOT_RUN, digest_of(texts[site.path]))


def _function(site: Site) -> str:
    return f"{site.path} {site.scope}"


def _count(kills: defaultdict[str, Counter[str]], result: Result) -> None:
    if result.outcome == KILLED and result.test:
        kills[result.site.path][result.test] += 1
        kills[_function(result.site)][result.test] += 5


def unsound(root: Path, results: Sequence[Result], groups: Sequence[str]) -> list[str]:
    """Tests that killed a mutant and fail on the code as it is, run in the same way: they count for nothing."""
    overlay = Overlay(root, groups)
    names = sorted({result.test for result in results if result.outcome == KILLED and result.test})
    try:
        return [name for some in _batched(names) for name in _failing(overlay, some)]
    finally:
        overlay.remove()


def _failing(overlay: Overlay, names: list[str]) -> Iterator[str]:
    """Each test of these that fails; what the runner says if none can be named."""
    left = names
    while left:
        run = overlay.run(left)
        if run.ran and not run.failed:
            return
        failed = next((name for name in left if f"{name} - " in f"{run.said} - "), None)
        yield failed or run.said
        if failed is None:
            return
        left = left[left.index(failed) + 1 :]


def _batched(names: list[str]) -> Iterator[list[str]]:
    """So many that they do not use up the time of a run."""
    yield from (names[begin : begin + BATCH] for begin in range(0, len(names), BATCH))
