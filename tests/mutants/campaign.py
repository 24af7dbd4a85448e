"""Running mutants: each in a copy of the sources of its worker, against the tests that run its line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import msgspec

from .covering import Covering
from .sites import Site, mutated

PATIENCE_SECONDS = 240
KILLED, SURVIVED, NOT_RUN = "killed", "survived", "no test runs it"
_ticks = count(1)


class Result(msgspec.Struct, frozen=True):
    """What became of a mutant, and which test noticed."""

    site: Site
    outcome: str
    by: str = ""


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
        try:
            self._write(path, mutated(text, site))
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--timeout", "60", *tests],
                cwd=self._root,
                env=os.environ | {"PYTHONPATH": f"{self.place / 'src'}{os.pathsep}{self._root}"},
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Result(site, KILLED, "time ran out")
        finally:
            self._write(path, text)
        if done.returncode == 0:
            return Result(site, SURVIVED)
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return Result(site, KILLED, failed[0][:200] if failed else f"pytest ended with {done.returncode}")

    def _write(self, path: Path, text: str) -> None:
        """Every text gets a time of its own: compiled files are told apart by time and size."""
        path.write_text(text, encoding="utf-8")
        moment = 1_000_000_000 + next(_ticks)
        os.utime(path, (moment, moment))

    def remove(self) -> None:
        """Give the room back."""
        shutil.rmtree(self.place)


def run(root: Path, chosen: Sequence[Site], known: Covering, *, workers: int) -> Iterator[Result]:
    """The result of each mutant, as they come."""
    overlays: SimpleQueue[Overlay] = SimpleQueue()
    made = [Overlay(root) for _ in range(workers)]
    for overlay in made:
        overlays.put(overlay)

    def judge(site: Site) -> Result:
        tests = known.of(site.path, site.line)
        if not tests:
            return Result(site, NOT_RUN)
        overlay = overlays.get()
        try:
            return overlay.judged(site, tests)
        finally:
            overlays.put(overlay)

    try:
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(judge, chosen)
    finally:
        for overlay in made:
            overlay.remove()
