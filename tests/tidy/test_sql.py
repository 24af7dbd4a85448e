"""SQL is never built from values: they are bound. Only fixed identifiers and whole numbers may be inserted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest

SQL = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP|PRAGMA|WITH|BEGIN|COMMIT|ATTACH|VACUUM)\s"
    r"|.*\s(FROM|WHERE|AND|OR|ORDER BY|VALUES|LIMIT|SET)\s+[\w.+(:?]*\s*(=|<>|[<>]=?|IN|LIKE|IS)?\s*['(]?$",
    re.DOTALL,
)
RUNS_SQL = frozenset({"execute", "executemany", "executescript"})


def is_sql(text: object) -> bool:
    """Whether a text looks like SQL or a part of it: keywords in capitals."""
    return isinstance(text, str) and SQL.match(text) is not None


def is_fixed(value: ast.FormattedValue) -> bool:
    """Whether an inserted value is a whole number by its format, a constant, or an entry of a constant table."""
    spec = value.format_spec
    if isinstance(spec, ast.JoinedStr) and [ast.unparse(part) for part in spec.values] == ["'d'"]:
        return True
    inner = value.value.value if isinstance(value.value, ast.Subscript) else value.value
    return isinstance(inner, ast.Name) and inner.id.isupper()


def built_statements(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where and how a statement is built from something that is not fixed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and any(is_sql(part.value) for part in _texts(node)):
            if not all(is_fixed(part) for part in node.values if isinstance(part, ast.FormattedValue)):
                yield node.lineno, "f-string"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.Add)):
            if any(isinstance(side, ast.Constant) and is_sql(side.value) for side in (node.left, node.right)):
                yield node.lineno, "% or +"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from _calls(node, node.func)


def _calls(node: ast.Call, function: ast.Attribute) -> Iterator[tuple[int, str]]:
    if function.attr == "format" and isinstance(function.value, ast.Constant) and is_sql(function.value.value):
        yield node.lineno, "format"
    if function.attr in RUNS_SQL and node.args and isinstance(node.args[0], (ast.BinOp, ast.IfExp)):
        yield node.lineno, "expression as a statement"


def _texts(node: ast.JoinedStr) -> list[ast.Constant]:
    return [part for part in node.values if isinstance(part, ast.Constant)]


def test_no_statement_is_built_from_values(code: Any) -> None:
    """A value reaches the database as a parameter."""
    wrong = [f"{path}:{line}: {how}" for path, tree in code("src").items() for line, how in built_statements(tree)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "line",
    [
        'connection.execute(f"SELECT * FROM events WHERE id = {id_}")',
        'query = f"DELETE FROM {table}"',
        'query = f"{head} AND type = {type_}"',
        'query = "SELECT * FROM events WHERE id = %s" % id_',
        'query = "SELECT * FROM " + table',
        'query = "SELECT {} FROM events".format(columns)',
        "connection.execute(head + tail)",
    ],
)
def test_a_built_statement_is_found(line: str) -> None:
    """The check sees every way of building one."""
    assert list(built_statements(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        'connection.execute("SELECT * FROM events WHERE id = ?", (id_,))',
        'connection.execute(f"PRAGMA user_version = {number:d}")',
        'conditions = "".join(f" AND {_CONDITIONS[name]}" for name in values)',
        'message = f"select an engine for {url}"',
        'reason = f"the store was busy for {waited} ms, AND that is all"',
    ],
)
def test_fixed_parts_and_prose_pass(line: str) -> None:
    """Bound values, whole numbers, constant tables and sentences are fine."""
    assert not list(built_statements(ast.parse(line)))
