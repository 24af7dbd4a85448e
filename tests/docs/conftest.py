"""Pages for the tests: text, fenced blocks, links, and a `Stage` that runs the blocks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """One fenced block: its language, its text, and the line it begins on."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    text = (ROOT / page).read_text("utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(text)]


class Stage:
    """Runs the blocks of one page in order: Python in one namespace, shell lines in the same directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.names: dict[str, Any] = {"__name__": "page"}

    def play(self, page: str) -> int:
        """Run the blocks that can be run, and return their number."""
        played = [block for block in blocks(page) if block.language in ("python", "console")]
        for block in played:
            if block.language == "python":
                source = "\n" * (block.line - 1) + block.text  # so that a traceback names the line of the page
                exec(compile(source, page, "exec", dont_inherit=True), self.names)
            else:
                self.shell(page, block)
        return len(played)

    def shell(self, page: str, block: Block) -> None:
        """Run each `$` line and compare what it prints with the lines below it."""
        for line, expected in commands(block.text):
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            run = subprocess.run(
                line,
                shell=True,
                cwd=self.place,
                env=os.environ | {"PATH": path, "COLUMNS": "120", "NO_COLOR": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
            )
            where = f"{page}, the block at line {block.line}: $ {line}"
            assert matches(expected, run.stdout), f"{where}\n--- expected\n{expected}\n--- got\n{run.stdout}"


def commands(text: str) -> list[tuple[str, str]]:
    """The shell lines of a block, each with the output that the page shows."""
    parts = re.split(r"^\$ (.*)\n?", text, flags=re.MULTILINE)[1:]
    return [(parts[at], parts[at + 1]) for at in range(0, len(parts), 2)]


def matches(expected: str, got: str) -> bool:
    """Whether the output is as shown. `…` matches anything; spaces at the end of a line are ignored."""
    form = re.escape(_trimmed(expected)).replace("…", ".*").replace(r"\ \ .*\ \ ", ".*")
    return re.fullmatch(form, _trimmed(got), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage with an empty directory."""
    monkeypatch.chdir(tmp_path)
    return Stage(tmp_path)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's root."""
    return ROOT


@pytest.fixture(scope="session")
def fenced() -> Any:
    """`blocks`, for test modules."""
    return blocks


@pytest.fixture(scope="session")
def pages() -> list[Path]:
    """Every page of the documentation."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.fixture(scope="session")
def output_matches() -> Any:
    """`matches`, for test modules."""
    return matches
