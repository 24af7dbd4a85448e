"""Which tests run which line: the tests run once under `coverage`, one group after the other, kept in `.mutants/`.

A group is run again when its own tests or the sources change; what was found so far is kept if the run is stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import coverage
import msgspec

SERVER = "postgres"  # such tests start a server that would outlive each fork


class Covering(msgspec.Struct):
    """The tests of each line of each file (by number), how long each takes, and how many lines it runs."""

    lines: dict[str, dict[int, list[int]]]
    tests: list[str]
    seconds: dict[str, float]
    width: dict[str, int]

    def of(
        self, places: Sequence[tuple[str, int]], *, about: str, kills: Mapping[str, int], seconds_max: float
    ) -> list[str]:
        """The tests of these lines, up to a time: those that killed most, then those that promise most for their time.

        A test promises more if its name has words of what is changed, and less for each case of it that comes before.
        """
        numbers = {number for path, line in places for number in self.lines.get(path, {}).get(line, [])}
        names = [
            name for name in map(self.tests.__getitem__, numbers) if SERVER not in name and self.seconds[name] >= 0
        ]
        words, cases = _words(about), Counter[str]()
        ranks = {}
        for name in sorted(names, key=lambda name: (self._cost(name), name)):
            function, cost = name.partition("[")[0], self._cost(name)
            cases[function] += 1
            promise = cost * cases[function] / (1 + 2 * len(words & _words(function)))
            ranks[name] = (-kills.get(name, 0) / (cost + 0.2), promise, name)
        chosen, total = [], 0.0
        for name in sorted(names, key=ranks.__getitem__):
            if not chosen or total + self.seconds[name] <= seconds_max:
                total += self.seconds[name]
                chosen.append(name)
        return chosen

    def _cost(self, name: str) -> float:
        """Its time, and half a millisecond for each line: one that runs little says more."""
        return self.seconds[name] + self.width[name] / 2000


def _words(text: str) -> set[str]:
    """Its words, as far as they are the same in most of their forms."""
    return {word[:5] for word in re.findall("[a-z]{4,}", text.lower())} - {"tests", "engin", "tally"}


def selectable(name: str) -> str:
    """How a test is asked for: an id with an escape in it is not found again, so its function is."""
    return name.partition("[")[0] if "\\" in name else name


def covering(root: Path, kept: Path, sources: Sequence[Path], groups: Sequence[str]) -> Covering:
    """What is kept of each group, if nothing changed since; otherwise its tests are run."""
    together = Covering({}, [], {}, {})
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    for group in groups:
        seen = code.copy()
        for path in _tests(root / group):
            seen.update(path.read_bytes())
        file = kept / f"covering-{group.replace('/', '-')}-{seen.hexdigest()[:16]}.json"
        if not file.exists():
            kept.mkdir(exist_ok=True)
            file.write_bytes(msgspec.json.encode(_run(root, kept, sources, group)))
        _add(together, msgspec.json.decode(file.read_bytes(), type=Covering))
    return together


def _tests(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def _add(together: Covering, one: Covering) -> None:
    before = len(together.tests)
    together.tests += one.tests
    together.seconds |= one.seconds
    together.width |= one.width
    for path, lines in one.lines.items():
        for line, numbers in lines.items():
            together.lines.setdefault(path, {}).setdefault(line, []).extend(before + number for number in numbers)


def _run(root: Path, kept: Path, sources: Sequence[Path], group: str) -> Covering:
    data, times = kept / "coverage", kept / "times.json"
    data.unlink(missing_ok=True)
    times.unlink(missing_ok=True)
    places = f"{root / 'src'}{os.pathsep}{root}"
    environment = os.environ | {"TALLY_MUTANTS_TIMES": str(times), "COVERAGE_FILE": str(data), "PYTHONPATH": places}
    folders = ",".join(sorted({str(each.parent) for each in sources}))
    command = [sys.executable, "-m", "coverage", "run", f"--source={folders}", "-m", "pytest", "-q"]
    command += ["-p", "tests.mutants.plugin", "-p", "no:cacheprovider", "-m", "not slow", group]
    subprocess.run(command, cwd=root, env=environment, check=False)
    seconds: dict[str, float] = json.loads(times.read_text())
    found = Covering({}, list(seconds), seconds, dict.fromkeys(seconds, 0))
    numbers = {name: number for number, name in enumerate(seconds)}
    read = coverage.CoverageData(str(data))
    read.read()
    for path in sources:
        lines = found.lines.setdefault(path.relative_to(root).as_posix(), {})
        for line, contexts in read.contexts_by_lineno(str(path)).items():
            lines[line] = [numbers[name] for name in contexts if name in numbers]
            for number in lines[line]:
                found.width[found.tests[number]] += 1
    return found
