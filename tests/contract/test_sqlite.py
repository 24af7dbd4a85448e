"""The SQLite engine against the contract."""

from __future__ import annotations

from pathlib import Path

from tallystick.testing.contract import AllContracts, EngineHarness, UrlHarness


class TestSqlite(AllContracts):
    """`sqlite:FILE`"""

    @classmethod
    def make_harness(cls, place: Path) -> EngineHarness:
        return UrlHarness(f"sqlite:{place}/log.db")
