"""The file engine against the contract."""

from __future__ import annotations

from pathlib import Path

from tallystick.testing.contract import AllContracts, EngineHarness, UrlHarness


class TestFiles(AllContracts):
    """`files:DIR`, which has one writer at a time."""

    @classmethod
    def make_harness(cls, place: Path) -> EngineHarness:
        return UrlHarness(f"files:{place}/log", many_writers=False, forges_hashes=True)
