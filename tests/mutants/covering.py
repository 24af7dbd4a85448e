"""Which tests run which line: every test file runs once under `coverage`, and what it ran is kept in `.mutants/map/`.

A test file runs again when its own text changed, or that of a source of which it ran a line. If the making of the map
is stopped, what was found so far is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import coverage
import msgspec

SERVER = "postgres"  # such tests start a server that would outlive each fork
FILES_AT_A_TIME = 6
FAILED, NOTHING_TO_RUN = 1, 5  # exit codes of pytest
SHIPPED = "src/tallystick/testing"  # contracts and models that the test files only call

Cost = tuple[float, float]  # seconds of the processor, and of the clock


class Ran(msgspec.Struct):
    """What the tests of one file ran and cost. Tests that were skipped or failed are not in it."""

    text: str
    sources: dict[str, str]
    costs: dict[str, Cost]
    lines: dict[str, dict[int, list[int]]]  # a test by its place in `costs`


class Covering:
    """The tests of each line of each file, what each test costs, and how many lines it runs."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[int, list[str]]] = {}
        self.costs: dict[str, Cost] = {}
        self.width: Counter[str] = Counter()
        self.marks: dict[str, int] = {}

    def add(self, ran: Ran) -> None:
        """Take in what the tests of one more file ran."""
        self.costs |= ran.costs
        self.marks |= {name: zlib.crc32(f"{ran.text} {name}".encode()) for name in ran.costs}
        tests = list(ran.costs)
        for path, lines in ran.lines.items():
            for line, numbers in lines.items():
                names = [tests[number] for number in numbers]
                self.lines.setdefault(path, {}).setdefault(line, []).extend(names)
                self.width.update(names)

    def of(self, places: Sequence[tuple[str, int]]) -> set[str]:
        """All tests of these lines."""
        return {name for path, line in places for name in self.lines.get(path, {}).get(line, [])}

    def ordered(self, names: Collection[str], *, about: str, kills: Mapping[str, int]) -> list[str]:
        """Those that killed most, then those that promise most for their time.

        A test promises more if its name has words of what is changed, and less for each case of it that comes before.
        """
        words, cases = _words(about), Counter[str]()
        ranks = {}
        for name in sorted(names, key=lambda name: (self._price(name), name)):
            function, price = name.partition("[")[0], self._price(name)
            cases[function] += 1
            promise = price * cases[function] / (1 + 2 * len(words & _words(function)))
            ranks[name] = (-kills.get(name, 0) / (price + 0.2), promise, name)
        return sorted(names, key=ranks.__getitem__)

    def _price(self, name: str) -> float:
        """Its time, a part of what it waits, and half a millisecond for each line: one that runs little says more."""
        cpu, wall = self.costs[name]
        return cpu + wall / 4 + self.width[name] / 2000


def _words(text: str) -> set[str]:
    """Its words, as far as they are the same in most of their forms."""
    return {word[:5] for word in re.findall("[a-z]{4,}", text.lower())} - {"tests", "engin", "tally"}


def selectable(name: str) -> str:
    """How a test is asked for: an id with an escape in it is not found again, so its function is."""
    return name.partition("[")[0] if "\\" in name else name


def digest_of(text: str) -> str:
    """What tells one text of a file from another."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def covering(root: Path, kept: Path, sources: Sequence[Path], groups: Sequence[str]) -> Covering:
    """What is kept of each test file, if nothing changed since that it ran; otherwise its tests run."""
    now = {path.relative_to(root).as_posix(): digest_of(path.read_text("utf-8")) for path in sources}
    files = [file for group in groups for file in _test_files(root / group) if SERVER not in file.name]
    texts = {file.relative_to(root).as_posix(): _text(root, file) for file in files}
    place = kept / "map"
    place.mkdir(parents=True, exist_ok=True)
    stale = [name for name, text in texts.items() if not _holds(_kept(place, name), text, now)]
    for begin in range(0, len(stale), FILES_AT_A_TIME):
        some = stale[begin : begin + FILES_AT_A_TIME]
        print(f"which test runs which line: {begin} of {len(stale)} test files", file=sys.stderr, flush=True)
        for name, ran in _run(root, kept, now, some):
            ran.text = texts[name]
            _file(place, name).write_bytes(msgspec.json.encode(ran))
    together = Covering()
    for name in texts:
        if kept_ran := _kept(place, name):
            together.add(kept_ran)
    return together


def _test_files(place: Path) -> list[Path]:
    return sorted(place.rglob("test_*.py")) if place.is_dir() else [place]


def _text(root: Path, file: Path) -> str:
    """A digest of a test file and of what it stands on: the other files of its folder, and the contracts it calls."""
    text = file.read_text("utf-8")
    beside = {path for path in file.parent.glob("*.py") if not path.name.startswith("test_")}
    beside |= {
        each / "conftest.py" for each in file.parents if (each / "conftest.py").exists() and root in each.parents
    }
    if "tallystick.testing" in text:
        beside |= set((root / SHIPPED).rglob("*.py"))
    return digest_of("".join([text, *(path.read_text("utf-8") for path in sorted(beside))]))


def _file(place: Path, name: str) -> Path:
    return place / f"{name.replace('/', '-')}.json"


def _kept(place: Path, name: str) -> Ran | None:
    file = _file(place, name)
    return msgspec.json.decode(file.read_bytes(), type=Ran) if file.exists() else None


def _holds(ran: Ran | None, text: str, now: Mapping[str, str]) -> bool:
    return ran is not None and ran.text == text and all(now.get(path) == seen for path, seen in ran.sources.items())


def _run(root: Path, kept: Path, now: Mapping[str, str], files: Sequence[str]) -> Iterator[tuple[str, Ran]]:
    data, costs = kept / "coverage", kept / "costs.json"
    data.unlink(missing_ok=True)
    costs.write_text("{}")
    places = f"{root / 'src'}{os.pathsep}{root}"
    environment = os.environ | {"TALLY_MUTANTS_COSTS": str(costs), "COVERAGE_FILE": str(data), "PYTHONPATH": places}
    folders = ",".join(sorted({str((root / path).parent) for path in now}))
    command = [sys.executable, "-m", "coverage", "run", f"--source={folders}", "-m", "pytest", "-q"]
    command += ["-p", "tests.mutants.plugin", "-p", "no:cacheprovider", "-m", "not slow", "-k", f"not {SERVER}", *files]
    done = subprocess.run(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode not in (0, FAILED, NOTHING_TO_RUN):
        raise RuntimeError(f"the tests of {' '.join(files)} did not run: {done.stdout[-400:]}")
    passed: dict[str, Cost] = json.loads(costs.read_text())
    found = {name: Ran("", {}, {}, {}) for name in files}
    for name, cost in passed.items():
        if SERVER not in name:
            found[name.partition("::")[0]].costs[name] = cost
    numbers = {name: number for ran in found.values() for number, name in enumerate(ran.costs)}
    read = coverage.CoverageData(str(data))
    read.read()
    for path, text in now.items():
        for line, contexts in read.contexts_by_lineno(str(root / path)).items():
            for name in numbers.keys() & contexts:
                ran = found[name.partition("::")[0]]
                ran.sources[path] = text
                ran.lines.setdefault(path, {}).setdefault(line, []).append(numbers[name])
    yield from found.items()
