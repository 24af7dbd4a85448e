"""Tables of runs: `runs`, `sessions`, `nodes`, `jobs` and `job_attempts`. `tallystick.runs` fills them."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

RunRow: TypeAlias = "dict[str, str | int | bytes | None]"


class RunRows(msgspec.Struct):
    """The rows of each table, in order of key."""

    runs: list[RunRow] = []
    sessions: list[RunRow] = []
    nodes: list[RunRow] = []
    jobs: list[RunRow] = []
    job_attempts: list[RunRow] = []


class RunTables(Protocol):
    """Where an engine stores the tables of runs."""

    def put(self, rows: RunRows) -> None:
        """Store rows in one transaction. A row with the same key is replaced."""

    def read(self, table: str) -> list[RunRow]:
        """Every row of one of the tables, in order of key."""
