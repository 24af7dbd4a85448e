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
from .covering import Covering
from .sites import Site, mutated
from .uses import places

STAGES = (5, 40, 400)  # so many tests at a time: those that a killed mutant does not need are not even collected
KILLED, SURVIVED, NOT_RUN, BROKEN = "killed", "survived", "no test runs it", "the runner broke"
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

    def __init__(self, root: Path) -> None:
        self._root = root
        self.place = Path(tempfile.mkdtemp(prefix="mutants-"))
        skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(root / "src", self.place / "src", ignore=skipped)

    def judged(self, site: Site, tests: Sequence[str]) -> Result:
        """Change the file, run the tests until one fails, and put the file back."""
        path = self.place / site.path
        text = path.read_text(encoding="utf-8")
        digest = digest_of(text)
        try:
            self._write(path, mutated(text, site))
            for stage in _stages(tests):
                run = self.run(stage)
                if not run.ran:
                    return Result(site, BROKEN, digest, run.said)
                if run.failed:
                    return Result(site, KILLED, digest, run.said)
            return Result(site, SURVIVED, digest)
        finally:
            self._write(path, text)

    def run(self, tests: Sequence[str]) -> forked.Run:
        """The tests on the package as it is now."""
        return forked.run_tests(self._root, self.place / "src", tests, self.place / "said")

    def _write(self, path: Path, text: str) -> None:
        """Every text gets a time of its own: compiled files are told apart by time and size."""
        path.write_text(text, encoding="utf-8")
        moment = 1_000_000_000 + next(_ticks)
        os.utime(path, (moment, moment))

    def remove(self) -> None:
        """Give the room back."""
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
    *,
    seconds_max: float,
    before: Sequence[Result] = (),
) -> Iterator[Result]:
    """The result of each mutant, as they come. Tests that killed before are asked first."""
    kills: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for result in before:
        kills[result.site.path][result.test] += result.outcome == KILLED
    overlay = Overlay(root)
    try:
        for site in chosen:
            tests = known.of(places(site, texts, known), kills=kills[site.path], seconds_max=seconds_max)
            result = overlay.judged(site, tests) if tests else Result(site, NOT_RUN, digest_of(texts[site.path]))
            if result.outcome == KILLED:
                kills[site.path][result.test] += 1
            yield result
    finally:
        overlay.remove()


def unsound(root: Path, results: Sequence[Result]) -> list[str]:
    """Tests that killed a mutant and fail on the code as it is, run in the same way: they count for nothing."""
    overlay = Overlay(root)
    left = sorted({result.test for result in results if result.outcome == KILLED and result.test})
    found = []
    try:
        while left:
            run = overlay.run(left)
            if run.ran and not run.failed:
                break
            failed = next((name for name in left if f"{name} - " in f"{run.said} - "), None)
            found.append(failed or run.said)
            if failed is None:
                break
            left.remove(failed)
    finally:
        overlay.remove()
    return found
