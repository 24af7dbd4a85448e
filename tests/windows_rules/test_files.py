"""The file engine against the parts of the contract that open, rename, replace and remove files."""

from __future__ import annotations

from pathlib import Path

from tallystick.testing.contract import EngineHarness, UrlHarness
from tallystick.testing.contract.append import AppendContract
from tallystick.testing.contract.concurrency import ConcurrencyContract
from tallystick.testing.contract.damage import DamageContract
from tallystick.testing.contract.durability import DurabilityContract
from tallystick.testing.contract.leases import LeaseContract
from tallystick.testing.contract.maintenance import ErasureContract, PruningContract, SnapshotContract
from tallystick.testing.contract.processes import ProcessContract
from tallystick.testing.contract.readers import ReaderContract
from tallystick.testing.contract.transfer import TransferContract


class TestFilesUnderWindowsRules(
    AppendContract,
    DurabilityContract,
    LeaseContract,
    ConcurrencyContract,
    ProcessContract,
    PruningContract,
    ErasureContract,
    SnapshotContract,
    DamageContract,
    TransferContract,
    ReaderContract,
):
    """LH-10: the promises of the port hold where an open file can be neither renamed, replaced nor removed."""

    @classmethod
    def make_harness(cls, place: Path) -> EngineHarness:
        return UrlHarness(f"files:{place}/log", many_writers=False, forges_hashes=True)
