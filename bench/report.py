"""What comes out: a table for people, `bench/out/<name>.json` for programs, and an exit status."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.harness import Row

OUT = Path(__file__).parent / "out"


def console() -> Console:
    """As wide as the terminal, or wide enough for the table where there is none."""
    found = Console()
    return found if found.is_terminal else Console(width=150)


def document(machine: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """The JSON document: docs/architecture.md has its shape."""
    return {"machine": machine, "rows": [msgspec.to_builtins(row) for row in rows]}


def write(name: str, machine: dict[str, Any], rows: Sequence[Row]) -> Path:
    """Write the document to bench/out."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps(document(machine, rows), indent=2) + "\n")
    return path


def show(rows: Sequence[Row], *, console: Console, title: str) -> None:
    """Print the table, then the notes, numbered."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", pad_edge=False, box=None)
    table.add_column("row", overflow="fold")
    for heading in ("value", "against", "ratio", "bar", ""):
        table.add_column(heading, justify="left" if heading == "against" else "right", overflow="fold")
    for number, row in enumerate(rows, 1):
        table.add_row(Text(f"{number}. {row.name}"), *_cells(row))
    console.print(table)
    console.print()
    for number, row in enumerate(rows, 1):
        if row.note:
            console.print(Text(f"{number}. {row.note}", style="dim" if row.value is not None else "red"))


def exit_status(rows: Sequence[Row]) -> int:
    """1 if a bar is missed or a row could not be measured."""
    return 0 if all(row.met for row in rows) else 1


def _cells(row: Row) -> list[Text]:
    value = Text(_number(row.value, row.unit))
    against = Text(f"{row.against} {_number(row.against_value, '')}" if row.against else "", style="dim")
    ratio = Text(f"{row.ratio:.2f} x" if row.ratio is not None else "")
    return [value, against, ratio, Text(str(row.bar) if row.bar else ""), _mark(row)]


def _mark(row: Row) -> Text:
    if row.value is None:
        return Text("FAILED", style="bold red")
    if row.bar is None:
        return Text("")
    return Text("met", style="green") if row.met else Text("MISSED", style="bold red")


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    digits = 0 if value >= 1000 else 1 if value >= 100 else 3 if value < 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()
