"""What the mutation runner changes, and what it makes of tests that notice and tests that do not."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from .campaign import KILLED, NOT_RUN, SURVIVED, run
from .covering import covering
from .sites import mutated, sites


@pytest.mark.parametrize(
    ("text", "mutants"),
    [
        ("x = a < b", {"x = (a <= b)"}),
        ("x = a and not b", {"x = (a or not b)", "x = a and (b)"}),
        ("x = a + 1", {"x = (a - 1)", "x = a + 2"}),
        ("x = 100 << 20", {"x = (100 >> 20)", "x = 101 << 20", "x = 300 << 20", "x = 100 << 21", "x = 100 << 60"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("while a:\n    break", {"while a:\n    continue"}),
        ("f(x)", {"pass"}),
        ("x = True", {"x = False"}),
        ("raise E(a + 1)", set()),
        ("x: Literal[1] = y", set()),
        ('x = "a" + b', set()),
        ('"""1 + 1"""', set()),
        ("x = f'{a + 1}'", set()),
        ("é = a < b", {"é = (a <= b)"}),
        ("x = (a\n  < b)", {"x = ((a <= b))"}),
    ],
)
def test_each_mistake_is_one_change(text: str, mutants: set[str]) -> None:
    """One mutant, one place; texts, annotations and the arguments of errors are left alone."""
    found = {mutated(text, site) for site in sites("m.py", text)}
    assert found == mutants


TOY = """
def largest(a, b):
    if a > b:
        return a
    return b


def unused(a):
    return a + 1
"""

TESTS = """
from toy import largest


def test_largest():
    assert largest(1, 2) == 2
    assert largest(3, 2) == 3
"""


def test_what_the_tests_notice_is_killed(tmp_path: Path) -> None:
    """A wrong branch is noticed, a harmless one survives, and a line that no test runs is named."""
    source = tmp_path / "src" / "tallystick" / "toy.py"
    for path, text in ((source, TOY), (tmp_path / "tests" / "test_toy.py", TESTS)):
        path.parent.mkdir(parents=True)
        path.write_text(textwrap.dedent(text))
    (tmp_path / "tests" / "mutants").symlink_to(Path(__file__).parent)
    (tmp_path / "tests" / "conftest.py").write_text(
        "import os, sys\n"
        "places = [p for p in os.environ.get('PYTHONPATH', '').split(os.pathsep) if p.endswith('src')] + ['src']\n"
        "sys.path.insert(0, os.path.join(places[0], 'tallystick'))\n"
    )
    known = covering(tmp_path, tmp_path / ".mutants", [source], ["tests/test_toy.py"])
    found = sites("src/tallystick/toy.py", source.read_text())
    outcomes = {(item.site.before, item.site.after): item.outcome for item in run(tmp_path, found, known, workers=1)}
    assert outcomes[("a > b", "(a >= b)")] == SURVIVED
    assert outcomes[("return a", "return None")] == KILLED
    assert outcomes[("a + 1", "(a - 1)")] == NOT_RUN
    assert covering(tmp_path, tmp_path / ".mutants", [source], ["tests/test_toy.py"]) == known
