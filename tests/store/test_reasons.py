"""The table of reasons: every code that verification can report has an advice, which can be followed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tallystick
from tallystick import errors
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


def test_the_index_of_a_damaged_segment_is_to_be_kept(tmp_path: Path) -> None:
    """A damaged segment makes its index differ too; without the index, questions about other streams are refused."""
    url = f"files:{tmp_path / 'log'}"
    with tallystick.open(url, segment_bytes_max=4096, compress_bytes_min=1) as store:
        for number in range(60):
            store.append("order/1", tallystick.NewEvent("noted", {"number": number}))
        store.log.reclaim(compress_before=1 << 62, progress=lambda done: None)
    sealed = min((tmp_path / "log").glob("*_001.log"))
    content = bytearray(sealed.read_bytes())
    content[1000] ^= 1
    sealed.write_bytes(content)
    with tallystick.open(url, readonly=True) as store:
        found = {problem.what for problem in store.verify().problems}
        assert {"hole", "index"} <= found
        assert store.stream_head("order/2") is None
    (tmp_path / "log" / "index" / sealed.name).with_suffix(".idx").unlink()
    with tallystick.open(url, readonly=True) as store, pytest.raises(errors.Damaged):
        store.stream_head("order/2")
    assert "If the segment is damaged, keep it" in reasons.ADVICE["index"]
