"""What the mutation runner changes, and what it makes of tests that notice and tests that do not."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from .campaign import KILLED, NOT_RUN
from .harmless import harmless
from .sites import mutated, sites

ROOT = Path(__file__).parents[2]


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
        ("def f():\n    return None", set()),
        ("x = zip(a, b, strict=True)", set()),
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


def test_the_name_of_a_site_survives_moved_lines() -> None:
    """What is known of a mutant is kept under its function and its change, whatever stands above it."""
    text = "class A:\n    def f(self):\n        return x < 1 or y < 1 or x < 1\n"
    found, moved = sites("m.py", text), sites("m.py", "import os\n\n\n" + text)
    assert [site.key for site in found] == [site.key for site in moved]
    assert len({site.key for site in found}) == len(found)
    assert "m.py A.f: x < 1 -> (x <= 1) #2" in {site.key for site in found}


def test_what_is_called_harmless_is_there_and_has_a_reason() -> None:
    """A mutant that is gone leaves the list, and nothing is harmless without a sentence that says why."""
    known = harmless()
    files = {key.partition(" ")[0] for key in known}
    there = {
        site.key
        for name in files
        for site in sites(f"src/tallystick/{name}", (ROOT / "src/tallystick" / name).read_text("utf-8"))
    }
    assert sorted(set(known) - there) == []
    assert [why for why in known.values() if len(why.split()) < 5] == []


TOY = """
LIMIT = 2


def largest(a, b):
    if a > b:
        return a
    return b


def few(number):
    return number <= LIMIT


def unused(a):
    return a + 1


def made():
    return 7


MADE = made()
"""

TESTS = """
from toy import MADE, few, largest, made


def test_largest():
    assert largest(1, 2) == 2
    assert largest(3, 2) == 3


def test_largest_of_equals():
    assert largest(1, 1) == 1


def test_few():
    assert few(2) and not few(3)


def test_made():
    made()
    assert MADE == 7
"""

RUNNER = """
import sys
from pathlib import Path
from tests.mutants.campaign import Campaign, Overlay, unsound
from tests.mutants.covering import covering
from tests.mutants.sites import sites

root = Path(sys.argv[1])
name, groups = "src/tallystick/toy.py", ["tests/test_toy.py"]
source = root / name


def campaign(kept):
    return Campaign(covering(root, root / ".mutants", [source], groups), {name: source.read_text()}, kept)


first, results = campaign([]), []
found = sites(name, source.read_text())
overlay = Overlay(root, groups)
for site in found:
    result = first.judged(site, overlay, 0.0 if site.before == "a > b" else 20.0)
    results.append(result)
    print(result.outcome, result.site.before, result.site.after, result.test, sep="|")
again = campaign(results)
for site in found:
    if again.open(site):
        result = again.judged(site, overlay, 20.0)
        print("then " + result.outcome, result.site.before, result.site.after, result.test, sep="|")
assert not any(again.open(site) for site in found)
overlay.remove()
killers = again.tasks(["tests/test_toy.py::test_few", "tests/test_toy.py::test_made"])
(root / "tests/test_toy.py").write_text("def test_few(): raise OSError\\ndef test_made(): pass\\n")
later = campaign(results)
gone = {result.site for result in results if result.outcome == "killed" and "test_made" not in result.test}
assert {site for site in found if later.open(site)} == gone
overlay = Overlay(root, groups)
assert unsound(overlay, killers) == ["tests/test_toy.py::test_few"]
overlay.remove()
"""


def test_what_the_tests_notice_is_killed(tmp_path: Path) -> None:
    """A wrong branch is noticed, one that makes no difference survives when all its tests ran and not before, a line
    that no test runs is named, a constant is tried where it is used, what was called at import is called again, what a
    test killed is tried again when the test is gone, and a test that fails anyway counts for nothing."""
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
    runner = tmp_path / "runner.py"
    runner.write_text(RUNNER)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, runner, tmp_path], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split("|") for line in done.stdout.splitlines() if line.count("|") == 3]
    assert ["undecided", "a > b", "(a >= b)", ""] in lines
    assert ["then survived", "a > b", "(a >= b)", ""] in lines
    outcomes = {(before, after): (outcome, test) for outcome, before, after, test in lines}
    assert outcomes[("return a", "return None")] == (KILLED, "tests/test_toy.py::test_largest")
    assert outcomes[("2", "3")] == (KILLED, "tests/test_toy.py::test_few")
    assert outcomes[("a + 1", "(a - 1)")] == (NOT_RUN, "")
    assert outcomes[("7", "8")] == (KILLED, "tests/test_toy.py::test_made")
