"""The SQL of the schema: one object per file, each in the tree once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

import tallystick.engines.postgres
from tallystick import Store
from tallystick.engines.postgres import migrations

SQL = Path(next(iter(tallystick.engines.postgres.__path__))) / "sql"
_FUNCTION = re.compile(r"CREATE OR REPLACE FUNCTION tally\.(\w+)")


def test_every_function_has_a_file_of_its_name() -> None:
    """CP-12: a file in `functions/` creates one function, named after the file, and no other script creates any."""
    for file in (SQL / "functions").iterdir():
        assert _FUNCTION.findall(file.read_text()) == [file.stem]
    for folder in ("schema", "steps"):
        for file in (SQL / folder).iterdir():
            assert not re.search(r"CREATE\s.*FUNCTION tally", file.read_text()), file


def test_the_database_has_the_functions_that_have_files(
    store: Store, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """CP-12: it has all functions of the files, and no others."""
    query = "SELECT proname FROM pg_proc WHERE pronamespace = 'tally'::regnamespace"
    found = {name for (name,) in connect().execute(query)}
    assert found == {file.stem for file in (SQL / "functions").iterdir()}


def test_every_script_of_the_schema_is_run() -> None:
    """CP-12: a file that was added to `schema/` and not to the order of creation would be missing in new stores."""
    for file in (SQL / "schema").iterdir():
        assert file.read_text() in migrations.schema().sql, file
