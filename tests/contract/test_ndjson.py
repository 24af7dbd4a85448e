"""The ndjson engine against the contract."""

from __future__ import annotations

from pathlib import Path

from tallystick.testing.contract import AllContracts, EngineHarness, UrlHarness


class TestNdjson(AllContracts):
    """`ndjson:DIR`, which keeps only runs, with no order between them."""

    @classmethod
    def make_harness(cls, place: Path) -> EngineHarness:
        return UrlHarness(f"ndjson:{place}/log")
