"""Type checkers see the whole public API: what is right passes `mypy --strict`, and what is wrong is refused."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("programs")
EXPECTED = re.compile(r"# refused: ([a-z-]+)")
FOUND = re.compile(r"^mistakes\.py:(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)


def test_a_users_program_runs(tmp_path: Path) -> None:
    """What is type-checked below does what it says."""
    found, positions = runpy.run_path(str(PROGRAMS / "shop.py"))["main"](f"files:{tmp_path}/shop")
    assert found == {
        "types": ["order.placed", "order.paid", "order.paid"],
        "paid": {"cents": 300},
        "first": {"cents": 300},
        "seen": 2,
        "steps": {"steps": 3},
        "moved": 3,
    }
    assert positions == [1, 2, 3, 4]


@pytest.mark.timeout(600)
def test_mypy_accepts_what_is_right_and_refuses_what_is_wrong(tmp_path: Path) -> None:
    """`mypy --strict` finds nothing in the user's program, and exactly the lines marked as refused in the other."""
    options = [
        "--strict",
        "--config-file",
        "",
        "--no-error-summary",
        "--hide-error-context",
        "--cache-dir",
        str(tmp_path),
    ]
    command = [sys.executable, "-m", "mypy", *options, "shop.py", "mistakes.py"]
    done = subprocess.run(command, cwd=PROGRAMS, capture_output=True, encoding="utf-8")
    lines = (PROGRAMS / "mistakes.py").read_text("utf-8").splitlines()
    marked = [(number, kind) for number, line in enumerate(lines, start=1) for kind in EXPECTED.findall(line)]
    assert [(int(number), kind) for number, kind in FOUND.findall(done.stdout)] == marked
    assert "shop.py" not in done.stdout
    assert not done.stderr
