"""The table of reasons: every code that verification can report has an advice, which can be followed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tallystick.cli.main import COMMANDS
from tallystick.store import reasons
from tallystick.store.events import Problem

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tallystick"
REASONS = [item for item in vars(reasons).values() if isinstance(item, reasons.Reason)]


def codes_in_source() -> set[str]:
    """The codes that are written out where a problem is made, in Python and in the checks of PostgreSQL."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if "testing" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Problem", "finding"):
                place = node.args[0 if node.func.id == "Problem" else 1] if node.args else None  # type: ignore[attr-defined]
                if isinstance(place, ast.Constant):
                    found.add(place.value)
    for path in SOURCE.rglob("check_*.sql"):
        found |= set(re.findall(r"^SELECT '([a-z ]+)', ", path.read_text("utf-8"), re.MULTILINE))
    return found


def test_every_code_has_an_advice() -> None:
    """Nothing is reported of which nobody says what to do."""
    used = codes_in_source() | {reason.code for reason in REASONS}
    assert len(used) > 30
    assert not used - reasons.ADVICE.keys()


@pytest.mark.parametrize("code", reasons.ADVICE)
def test_an_advice_can_be_followed(code: str) -> None:
    """It is a sentence, and the commands that it names exist."""
    advice = reasons.ADVICE[code]
    assert advice[0].isupper() or advice[0] == "`"
    assert advice[-1] in ".!"
    assert set(re.findall(r"`tally (\w+)", advice)) <= COMMANDS.keys()


@pytest.mark.parametrize("code", reasons.ADVICE)
def test_every_code_is_described(code: str) -> None:
    """docs/errors.md has a line for it, with the same advice."""
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    (line,) = re.findall(rf"^\| `{re.escape(code)}` \|.*\|$", page, re.MULTILINE)
    assert line.endswith(f"| {reasons.ADVICE[code]} |")


def test_a_sentence_takes_its_values() -> None:
    """A finding says where it is, and has the values in its sentence."""
    assert reasons.HEAD_ELSEWHERE.of("order/1", 2, end=1, listed=2) == Problem(
        "head", "the log ends at seq 1, the store says 2", 0, "order/1", 2
    )
