"""The Postgres engine against the contract."""

from __future__ import annotations

from pathlib import Path

from tallystick.testing.contract import AllContracts, EngineHarness
from tallystick.testing.postgres import PostgresHarness


class TestPostgres(AllContracts):
    """`postgresql://…`"""

    @classmethod
    def make_harness(cls, place: Path) -> EngineHarness:
        return PostgresHarness()
