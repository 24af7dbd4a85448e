"""Where what is read when a module is imported is used: a line at import belongs to no test, its uses do."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from .sites import Site

DEPTH_MAX = 3

Place = tuple[str, int]


def places(site: Site, texts: Mapping[str, str], run: Callable[[Place], bool]) -> list[Place]:
    """The line itself if it is in the body of a function that tests run; otherwise what uses what is defined there.

    What runs at import counts for no test: the first one that imports the module would be said to run it.
    """
    tree = _parsed(texts[site.path])
    names, inside = _defined(tree, site.line)
    if _is_in_a_body(tree, site.line) and any(run((site.path, line)) for line in inside):
        return [(site.path, site.line)]
    found = {(site.path, line) for line in inside}
    for _ in range(DEPTH_MAX):
        mentioned = set(_mentions(names, texts)) - found
        found |= mentioned
        at_import = {place for place in mentioned if not _is_in_a_body(_parsed(texts[place[0]]), place[1])}
        names = {name for path, line in at_import for name in _defined(_parsed(texts[path]), line)[0]} - names
    return [(path, line) for path, line in sorted(found) if _is_in_a_body(_parsed(texts[path]), line)]


def runs_at_import(site: Site, texts: Mapping[str, str]) -> bool:
    """Whether the line runs when the module is imported."""
    return not _is_in_a_body(_parsed(texts[site.path]), site.line)


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _is_in_a_body(tree: ast.Module, line: int) -> bool:
    return line in _bodies(tree)


@cache
def _bodies(tree: ast.Module) -> set[int]:
    """The lines of all functions' bodies."""
    functions = (each for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {line for each in functions for line in range(each.body[0].lineno, (each.end_lineno or 0) + 1)}


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
