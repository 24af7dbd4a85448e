"""The engine contract: the port of `store/events.py` as tests that every engine runs.

    class TestMine(AllContracts):
        @classmethod
        def make_harness(cls, place):
            return UrlHarness(f"mine:{place}/log")

What an engine lacks is a named capability, and the tests that need it are skipped by that name and by nothing else.
"""

from __future__ import annotations

import pytest

THEMES = (
    "append",
    "expectations",
    "retry",
    "atomicity",
    "reads",
    "iteration",
    "filters",
    "orgs_and_sources",
    "profiles",
    "leases",
    "checkpoints",
    "cursors",
    "durability",
    "concurrency",
    "processes",
    "limits",
    "bad_input",
    "neighbours",
    "maintenance",
    "views",
    "projections",
    "commands",
    "deciders",
    "damage",
    "transfer",
    "readers",
    "tampered",
    "vanished",
    "tags",
    "tagged_logs",
)
pytest.register_assert_rewrite(*(f"{__name__}.{theme}" for theme in THEMES))

from tallystick.testing.contract.append import AppendContract  # noqa: E402
from tallystick.testing.contract.atomicity import AtomicityContract  # noqa: E402
from tallystick.testing.contract.bad_input import BadInputContract  # noqa: E402
from tallystick.testing.contract.checkpoints import CheckpointContract  # noqa: E402
from tallystick.testing.contract.commands import RunningCommandContract  # noqa: E402
from tallystick.testing.contract.concurrency import ConcurrencyContract  # noqa: E402
from tallystick.testing.contract.cursors import CursorContract  # noqa: E402
from tallystick.testing.contract.damage import DamageContract  # noqa: E402
from tallystick.testing.contract.deciders import DeciderContract  # noqa: E402
from tallystick.testing.contract.durability import DurabilityContract  # noqa: E402
from tallystick.testing.contract.expectations import ExpectationContract  # noqa: E402
from tallystick.testing.contract.filters import FilterContract  # noqa: E402
from tallystick.testing.contract.harness import EngineHarness, UrlHarness, needs  # noqa: E402
from tallystick.testing.contract.iteration import IterationContract  # noqa: E402
from tallystick.testing.contract.leases import LeaseContract  # noqa: E402
from tallystick.testing.contract.limits import LimitContract  # noqa: E402
from tallystick.testing.contract.maintenance import (  # noqa: E402
    CommandContract,
    ErasureContract,
    PruningContract,
    SnapshotContract,
)
from tallystick.testing.contract.neighbours import NeighbourContract  # noqa: E402
from tallystick.testing.contract.orgs_and_sources import OrgAndSourceContract  # noqa: E402
from tallystick.testing.contract.processes import ProcessContract  # noqa: E402
from tallystick.testing.contract.profiles import ProfileContract  # noqa: E402
from tallystick.testing.contract.projections import ConsumerContract, ProjectionContract  # noqa: E402
from tallystick.testing.contract.readers import ReaderContract  # noqa: E402
from tallystick.testing.contract.reads import ReadContract  # noqa: E402
from tallystick.testing.contract.retry import RetryContract  # noqa: E402
from tallystick.testing.contract.tagged_logs import TaggedLogContract  # noqa: E402
from tallystick.testing.contract.tags import ConditionContract, TagContract  # noqa: E402
from tallystick.testing.contract.tampered import TamperedContract  # noqa: E402
from tallystick.testing.contract.transfer import TransferContract  # noqa: E402
from tallystick.testing.contract.vanished import VanishedContract  # noqa: E402
from tallystick.testing.contract.views import DeadLetterContract, ViewContract  # noqa: E402


class AllContracts(
    AppendContract,
    ExpectationContract,
    RetryContract,
    AtomicityContract,
    ReadContract,
    IterationContract,
    FilterContract,
    OrgAndSourceContract,
    ProfileContract,
    LeaseContract,
    CheckpointContract,
    CursorContract,
    DurabilityContract,
    ConcurrencyContract,
    ProcessContract,
    LimitContract,
    BadInputContract,
    NeighbourContract,
    PruningContract,
    ErasureContract,
    SnapshotContract,
    CommandContract,
    ViewContract,
    DeadLetterContract,
    ProjectionContract,
    ConsumerContract,
    RunningCommandContract,
    DeciderContract,
    DamageContract,
    TransferContract,
    ReaderContract,
    TamperedContract,
    VanishedContract,
    TagContract,
    ConditionContract,
    TaggedLogContract,
):
    """Everything an engine must do."""


CONTRACTS = AllContracts.__bases__
"""The contract of each theme."""


__all__ = ["CONTRACTS", "THEMES", "AllContracts", "EngineHarness", "UrlHarness", "needs"]
