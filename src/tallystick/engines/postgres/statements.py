"""The SQL of this engine, one statement per file in `sql/queries/`, named by what it does."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import LiteralString


@cache
def named(name: str) -> LiteralString:
    """The statement in `sql/queries/<name>.sql`."""
    return resources.files(__package__).joinpath("sql", "queries", f"{name}.sql").read_text()
