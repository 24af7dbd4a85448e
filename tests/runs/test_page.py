"""docs/runs.md shows what happens: its workflow is run with the commands that stand there."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tallystick.cli.main import tally
from tallystick.runs import facts

PAGE = Path(__file__).parents[2] / "docs" / "runs.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return [text for found, text in FENCE.findall(PAGE.read_text("utf-8")) if found == language]


def matches(expected: str, shown: str) -> bool:
    """Whether lines are as on the page; `…` stands for anything, and columns may be of another width."""
    words = [re.escape(word).replace("…", ".*") for word in expected.split()]
    return re.fullmatch(r"\s*" + r"\s*".join(words) + r"\s*", shown, re.DOTALL) is not None


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-01: the workflow of the page runs, and the commands print what stands below them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "letters", raising=False)
    (tmp_path / "letters.py").write_text(blocks("python")[0])
    (tmp_path / "text.txt").write_text("the quick brown fox and the lazy dog")
    (block,) = blocks("console")
    steps: list[Any] = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    for step in steps:
        line, _, expected = step.partition("\n")
        result = CliRunner().invoke(tally, shlex.split(line)[1:], prog_name="tally")
        assert result.exit_code == 0, result.output
        assert matches(expected, result.stdout), result.stdout
    assert len(steps) == 3


def test_every_event_type_is_on_the_page() -> None:
    """RUN-01: what is recorded is described."""
    text = PAGE.read_text("utf-8")
    assert not [type_ for type_ in facts.BY_TYPE if f"`{type_}`" not in text]
