"""Putting changed code in the place of the old in functions that exist already."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

Functions = dict[str, list[FunctionType]]


def functions(source: Path) -> Functions:
    """Every function that there is of the files below a directory, by file."""
    found: defaultdict[str, list[FunctionType]] = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(f"{source}/"):
            found[each.__code__.co_filename].append(each)
    return dict(found)


def changes(known: Functions, path: Path, text: str) -> list[tuple[FunctionType, CodeType]]:
    """The functions of a file whose code is another in its text, with that code."""
    new: dict[tuple[str, int], list[CodeType]] = defaultdict(list)
    for code in _codes(compile(text, str(path), "exec", dont_inherit=True)):
        new[code.co_qualname, code.co_firstlineno].append(code)
    found = []
    for function in known.get(str(path), []):
        old = function.__code__
        codes = new.get((old.co_qualname, old.co_firstlineno), [])
        if len(codes) == 1 and codes[0] != old and codes[0].co_freevars == old.co_freevars:
            found.append((function, codes[0]))
    return found


def swap(known: Functions, path: Path, text: str) -> None:
    """Give the functions of a file the code that its text says."""
    for function, code in changes(known, path, text):
        function.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
