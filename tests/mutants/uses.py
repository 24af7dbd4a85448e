"""Where what is read when a module is imported is used: a line at import belongs to no test, its uses do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from .covering import Covering
from .sites import Site

DEPTH_MAX = 3

Place = tuple[str, int]


def places(site: Site, texts: Mapping[str, str], known: Covering) -> list[Place]:
    """The line itself if a test runs it; otherwise the lines that use the name that is defined there."""
    if known.lines.get(site.path, {}).get(site.line):
        return [(site.path, site.line)]
    names, inside = _defined(ast.parse(texts[site.path]), site.line)
    found = [(site.path, line) for line in inside]
    for _ in range(DEPTH_MAX):
        found += _mentions(names, texts)
        if any(known.lines.get(path, {}).get(line) for path, line in found):
            break
        names = {name for path, line in found for name in _defined(ast.parse(texts[path]), line)[0]} - names
    return found


def _defined(tree: ast.Module, line: int) -> tuple[set[str], range]:
    """The names that the innermost class or module statement at a line defines, and the lines of a function's body."""
    body: list[ast.stmt] = tree.body
    while True:
        at = next((each for each in body if _first(each) <= line <= (each.end_lineno or 0)), None)
        if isinstance(at, ast.ClassDef):
            within = next((each for each in at.body if _first(each) <= line <= (each.end_lineno or 0)), None)
            if within is None or isinstance(within, (ast.Assign, ast.AnnAssign)):
                return {at.name, *_targets(within)}, range(at.lineno, (at.end_lineno or 0) + 1)
            body = at.body
        elif isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return {at.name}, range(at.lineno, (at.end_lineno or 0) + 1)
        else:
            return set(_targets(at)), range(0)


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _targets(node: ast.stmt | None) -> Iterator[str]:
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def _mentions(names: set[str], texts: Mapping[str, str]) -> Iterator[Place]:
    if names:
        word = re.compile(r"\b(" + "|".join(sorted(names)) + r")\b")
        for path, text in texts.items():
            for number, line in enumerate(text.splitlines(), 1):
                if word.search(line):
                    yield path, number
