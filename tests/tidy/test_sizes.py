"""Small by design: functions have about ten lines, files about a hundred. A list of exceptions only gets shorter.

`pytest tests/tidy/test_sizes.py -rP` prints the medians.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FUNCTION_LINES_MAX = 70
FUNCTION_LINES_LONG = 30
FILE_LINES_MAX = 400
LONG_FUNCTIONS_SHARE = 0.01
FUNCTION_LINES_MEDIAN = 10
FILE_LINES_MEDIAN = 120

TOLERATED: dict[str, int] = {}
"""Path of a file, or path:function, that is too large -> its lines. Entries shrink or go, and never grow."""


@pytest.fixture(scope="module")
def functions(code: Any) -> dict[str, int]:
    """The lines of every function."""
    return dict(item for path, tree in code().items() for item in _functions(path, tree))


def _functions(path: str, tree: ast.AST, within: str = "") -> Iterator[tuple[str, int]]:
    for node in ast.iter_child_nodes(tree):
        name = within
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{within}.{node.name}" if within else node.name
            if not isinstance(node, ast.ClassDef):
                assert node.end_lineno is not None
                yield f"{path}:{name}", node.end_lineno - node.lineno + 1
        yield from _functions(path, node, name)


@pytest.fixture(scope="module")
def files(code: Any, root: Path) -> dict[str, int]:
    """The lines of every file that has any."""
    sizes = {path: len((root / path).read_text("utf-8").splitlines()) for path in code()}
    return {path: size for path, size in sizes.items() if size}


def test_no_function_is_too_long(functions: dict[str, int]) -> None:
    """None has over 70 lines, except those tolerated, which have not grown."""
    assert not _over(functions, FUNCTION_LINES_MAX)


def test_no_file_is_too_long(files: dict[str, int]) -> None:
    """None has over 400 lines, except those tolerated, which have not grown."""
    assert not _over(files, FILE_LINES_MAX)


def _over(sizes: dict[str, int], limit: int) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if size > TOLERATED.get(name, limit)}


def test_the_list_of_what_is_tolerated_only_shrinks(functions: dict[str, int], files: dict[str, int]) -> None:
    """An entry has the exact size of its subject. When the subject shrinks, the entry must too."""
    sizes = functions | files
    assert {name: sizes.get(name) for name in TOLERATED} == TOLERATED


def test_few_functions_are_long(functions: dict[str, int]) -> None:
    """At most one in a hundred has more than 30 lines."""
    long = {name: size for name, size in functions.items() if size > FUNCTION_LINES_LONG}
    assert len(long) <= LONG_FUNCTIONS_SHARE * len(functions), long


def test_medians_are_small(functions: dict[str, int], files: dict[str, int]) -> None:
    """Half of the functions have ten lines or fewer, half of the files 120 or fewer."""
    function, file = statistics.median(functions.values()), statistics.median(files.values())
    print(f"median lines: {function:g} of {len(functions)} functions, {file:g} of {len(files)} files")
    assert function <= FUNCTION_LINES_MEDIAN
    assert file <= FILE_LINES_MEDIAN


@pytest.mark.parametrize("word", ["utils", "util", "helpers", "common", "misc", "manager"])
def test_no_drawer_for_odds_and_ends(word: str, code: Any) -> None:
    """A function without a home shows that a noun is missing."""
    assert not [path for path in code() if word in path.removesuffix(".py").split("/")]
