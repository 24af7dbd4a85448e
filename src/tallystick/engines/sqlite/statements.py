"""The SQL of this engine: one statement per file in `sql/`, named by what it does."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def named(name: str) -> str:
    """The statement in `sql/<name>.sql`."""
    return resources.files(__package__).joinpath("sql", f"{name}.sql").read_text()
