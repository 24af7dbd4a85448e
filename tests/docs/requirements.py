"""`python -m tests.docs.requirements [--check]` writes docs/requirements.md: requirements and the tests that name them.

A test names a row by having its id (as in LH-03) in its name or docstring. It is under tests/ or in the contract suite.
Nothing is run. So a named row may still be wrong, but a row that is not named is certainly not tested.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

MENTION = re.compile(r"\b(EVT|LH|CP|RUN|COM|PIPE|SAFE|TAG)-(\d\d)\b", re.IGNORECASE)
ROWS = Path("docs/requirements-rows.json")
PAGE = Path("docs/requirements.md")
AREAS = {
    "EVT": "Lifecycle of events",
    "LH": "The file log",
    "CP": "The control-plane log",
    "RUN": "Event-sourced runs",
    "COM": "Community logs",
    "PIPE": "The data pipeline",
    "SAFE": "Never wrong in silence",
    "TAG": "Tags, conditions and deciders",
}
_OPENING = """\
# Requirements and the tests that name them

`python -m tests.docs.requirements` generates this page from the names and docstrings of the tests. Do not edit it. A
row without a test says "not yet". A row with tests holds as far as they go. Tests of `testing/contract` run once for
each engine.
"""


class Naming(msgspec.Struct, frozen=True, order=True):
    """One test that names a row."""

    row: str
    test: str


def rows(root: Path) -> dict[str, str]:
    """What must hold, one line per row, by the id of the row."""
    return msgspec.json.decode((root / ROWS).read_bytes(), type=dict[str, str])


def sources(root: Path) -> list[Path]:
    """The files with tests: tests/ and the shipped contract suite."""
    return sorted({*root.glob("tests/**/*.py"), *root.glob("src/**/contract/**/*.py")})


def namings(root: Path) -> set[Naming]:
    """Every pair of a row and a test that names it."""
    return {
        Naming(row, f"{path.relative_to(root).as_posix()}::{name}")
        for path in sources(root)
        for name, said in _tests(ast.parse(path.read_text("utf-8")))
        for row in mentions(said)
    }


def mentions(said: str) -> set[str]:
    """The rows that a text names. A function name has underscores instead of dashes."""
    return {f"{area.upper()}-{number}" for area, number in MENTION.findall(said.replace("_", "-"))}


def _tests(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The tests of a module: the name that pytest uses, and the name with the docstring."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            if node.name.startswith("Test"):
                yield node.name, _said(node)
            yield from ((f"{node.name}::{name}", said) for name, said in _functions(node.body))
    yield from _functions(tree.body)


def _functions(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            yield node.name, _said(node)


def _said(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    return f"{node.name} {ast.get_docstring(node) or ''}"


def page(root: Path) -> str:
    """The whole page."""
    texts, found = rows(root), sorted(namings(root))
    tests = {row: [naming.test for naming in found if naming.row == row] for row in texts}
    named = sum(map(bool, tests.values()))
    lines = [_OPENING, f"{named} of {len(texts)} rows are named by a test.", ""]
    for area, title in AREAS.items():
        lines += [f"## {area}: {title}", "", "| row | what must hold | tests |", "|---|---|---|"]
        lines += [
            f"| {row} | {text} | {_cell(tests[row])} |" for row, text in texts.items() if row.startswith(f"{area}-")
        ]
        lines.append("")
    return "\n".join(lines)


def _cell(tests: list[str]) -> str:
    return "<br>".join(f"`{test}`" for test in tests) or "not yet"


def unknown(root: Path) -> list[Naming]:
    """Tests that name a row that does not exist."""
    known = rows(root)
    return sorted(naming for naming in namings(root) if naming.row not in known)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page. With --check, return 1 if it is out of date."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.requirements")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
    parser.add_argument("--root", type=Path, default=Path(), help="the project (default: here)")
    given = parser.parse_args(arguments)
    if not (given.root / ROWS).is_file():
        print(f"there is no {ROWS} here; run it in the project's root", file=sys.stderr)
        return 2
    text = page(given.root)
    if not given.check:
        (given.root / PAGE).write_text(text, "utf-8")
        return 0
    if (given.root / PAGE).is_file() and (given.root / PAGE).read_text("utf-8") == text:
        return 0
    print(f"{PAGE} is out of date: run python -m tests.docs.requirements", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
