"""Where a module can be changed by one small mistake, and what it looks like then.

A mutant is the module's own text with one expression or statement replaced. Left alone: annotations, docstrings, texts,
what only type checkers read, `zip(strict=True)`, which asserts, and the arguments of errors, which decide nothing.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


class Site(msgspec.Struct, frozen=True, order=True):
    """One mutant: the place of what is replaced (lines from 1, columns in bytes), and what by."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    before: str
    after: str
    scope: str = ""
    nth: int = 1

    @property
    def key(self) -> str:
        """What names the mutant when lines move: the file, the function, the change, and which one if it repeats."""
        before = " ".join(self.before.split())
        return f"{self.path.removeprefix('src/tallystick/')} {self.scope}: {before} -> {self.after} #{self.nth}"


def sites(path: str, text: str) -> list[Site]:
    """Every mutant of a module, in order of place."""
    lines = text.encode().splitlines(keepends=True)
    tree = ast.parse(text)
    scopes = list(_scopes(tree, ()))
    found = set()
    for node, changed in _changes(tree):
        if isinstance(node, ast.BinOp) and _is_text(node):
            continue
        place = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        scope = [name for first, last, name in scopes if first <= node.lineno <= last]
        found.add(Site(path, *place, _between(lines, *place), changed, scope[-1] if scope else "module"))
    seen: Counter[str] = Counter()
    return [msgspec.structs.replace(site, nth=_count(seen, site.key)) for site in sorted(found)]


def _count(seen: Counter[str], key: str) -> int:
    seen[key] += 1
    return seen[key]


def _scopes(node: ast.AST, outer: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    """The lines of every class and function, outer ones first."""
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = (*outer, child.name)
            yield child.lineno, child.end_lineno or 0, ".".join(name)
        yield from _scopes(child, name)


def mutated(text: str, site: Site) -> str:
    """The module with one site changed."""
    lines = text.encode().splitlines(keepends=True)
    first, last = lines[site.line - 1], lines[site.end_line - 1]
    joined = first[: site.column] + site.after.encode() + last[site.end_column :]
    return b"".join([*lines[: site.line - 1], joined, *lines[site.end_line :]]).decode()


def _between(lines: list[bytes], line: int, column: int, end_line: int, end_column: int) -> str:
    if line == end_line:
        return lines[line - 1][column:end_column].decode()
    return b"".join([lines[line - 1][column:], *lines[line : end_line - 1], lines[end_line - 1][:end_column]]).decode()


def _changes(tree: ast.Module) -> Iterator[tuple[Any, str]]:
    for node in _nodes(tree):
        for other in _others(node):
            yield node, other


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that decide something, depth first."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _says_only(child):
                yield child
                yield from _nodes(child)


def _says_only(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return True
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.JoinedStr, ast.Raise, ast.Assert)):
        return not isinstance(node, ast.Raise) or isinstance(node.exc, ast.Call)
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(isinstance(side, ast.JoinedStr) or isinstance(_value(side), (str, bytes)) for side in sides)


def _value(node: ast.AST) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _others(node: ast.AST) -> Iterator[str]:
    """What the node may become: Python text that stands in its place."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield _text(ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators))
    elif isinstance(node, ast.BoolOp):
        yield _text(ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values))
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield _text(ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _text(node.operand)
    elif isinstance(node, ast.Constant):
        yield from _other_constants(node.value)
    elif isinstance(node, ast.IfExp):
        yield _text(ast.IfExp(node.test, node.orelse, node.body))
    elif isinstance(node, (ast.Break, ast.Continue)):
        yield "break" if isinstance(node, ast.Continue) else "continue"
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield "return None"
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield "pass"


def _other_constants(value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield str(not value)
    elif isinstance(value, int):
        yield str(value + 1)
        if value > 2:
            yield str(value * 3)
    elif isinstance(value, float):
        yield repr(value * 2 + 1)


def _text(node: ast.AST) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"
