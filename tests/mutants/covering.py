"""Which tests run which line: one run of the tests under `coverage`, kept in `.mutants/` until the sources change."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import coverage
import msgspec

SECONDS_MAX = 60.0
TESTS_MAX = 400


class Covering(msgspec.Struct):
    """The tests of each line of each file, and how long each takes and how many lines it runs."""

    lines: dict[str, dict[int, list[int]]]
    tests: list[str]
    seconds: list[float]
    width: list[int]

    def of(self, path: str, line: int) -> list[str]:
        """The tests of a line, those that run the least first, as many as are done within a minute."""
        numbers = [number for number in self.lines.get(path, {}).get(line, []) if self.seconds[number] >= 0]
        chosen, total = [], 0.0
        for number in sorted(numbers, key=lambda number: (self.width[number], self.seconds[number])):
            total += self.seconds[number]
            if chosen and (total > SECONDS_MAX or len(chosen) == TESTS_MAX):
                break
            chosen.append(self.tests[number])
        return chosen


def covering(root: Path, kept: Path, sources: Sequence[Path], tests: Sequence[str]) -> Covering:
    """What is kept, if nothing changed since; otherwise the tests are run."""
    seen = hashlib.sha256("\n".join(tests).encode())
    for path in sorted([*sources, *(root / "tests").rglob("*.py")]):
        seen.update(path.read_bytes())
    file = kept / f"covering-{seen.hexdigest()[:16]}.json"
    if not file.exists():
        kept.mkdir(exist_ok=True)
        file.write_bytes(msgspec.json.encode(_run(root, kept, sources, tests)))
    return msgspec.json.decode(file.read_bytes(), type=Covering)


def _run(root: Path, kept: Path, sources: Sequence[Path], tests: Sequence[str]) -> Covering:
    data, times = kept / "coverage", kept / "times.json"
    data.unlink(missing_ok=True)
    environment = os.environ | {"TALLY_MUTANTS_TIMES": str(times), "COVERAGE_FILE": str(data)}
    command = [sys.executable, "-m", "coverage", "run", f"--source={root / 'src' / 'tallystick'}", "-m", "pytest", "-q"]
    command += ["-p", "tests.mutants.plugin", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    subprocess.run(command, cwd=root, env=environment, check=False)
    seconds: dict[str, float] = json.loads(times.read_text())
    names = list(seconds)
    numbers = {name: number for number, name in enumerate(names)}
    found = Covering({}, names, list(seconds.values()), [0] * len(names))
    read = coverage.CoverageData(str(data))
    read.read()
    for path in sources:
        lines = found.lines.setdefault(path.relative_to(root).as_posix(), {})
        for line, contexts in read.contexts_by_lineno(str(path)).items():
            lines[line] = [numbers[name] for name in contexts if name in numbers]
            for number in lines[line]:
                found.width[number] += 1
    return found
