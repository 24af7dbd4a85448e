"""The examples of deciders do what they say, and stay small."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def lines(example: str) -> int:
    """The lines of code of an example, without empty ones and its docstring."""
    text = (EXAMPLES / example).read_text("utf-8")
    docstring = ast.parse(text).body[0]
    assert docstring.end_lineno is not None
    return sum(bool(line.strip()) for line in text.splitlines()[docstring.end_lineno :])


def test_the_bank_pays_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """TAG-06: the second run repeats the withdrawal and deposits again."""
    monkeypatch.chdir(tmp_path)
    for balance in (5, 15):
        runpy.run_path(str(EXAMPLES / "bank.py"))
        assert capsys.readouterr().out == f"{balance} are left; the log is verified: True\n"


def test_the_school_keeps_both_rules(capsys: pytest.CaptureFixture[str]) -> None:
    """TAG-06: a full course, and a student with two courses, are refused by what other streams say."""
    runpy.run_path(str(EXAMPLES / "courses.py"))
    said = capsys.readouterr().out.splitlines()
    assert said[2:] == [
        "cem does not take art: art is full",
        "ann takes botany: seq 2",
        "ann does not take chess: ann has two courses",
    ]


@pytest.mark.parametrize(("example", "most"), [("bank.py", 26), ("courses.py", 60)])
def test_an_example_is_small(example: str, most: int) -> None:
    """A newcomer reads the domain and its use in one look."""
    assert lines(example) <= most


@pytest.mark.timeout(600)
def test_examples_are_typed(tmp_path: Path) -> None:
    """`mypy --strict` finds nothing in them."""
    options = ["--strict", "--config-file", "", "--no-error-summary", "--cache-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "bank.py", "courses.py"],
        cwd=EXAMPLES,
        capture_output=True,
        encoding="utf-8",
    )
    assert (done.stdout, done.stderr) == ("", "")
