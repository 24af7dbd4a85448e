"""The contract suite itself: nothing in it is hidden, and no engine lacks more than is listed."""

from __future__ import annotations

from collections import Counter

import pytest

import tallystick
from tallystick.store import capabilities
from tallystick.testing.contract import CONTRACTS, THEMES, AllContracts

LACKING = {
    "memory": {capabilities.DURABLE, capabilities.RUN_TABLES},
    "files": {capabilities.RUN_TABLES},
    "ndjson": capabilities.ALL - {capabilities.DURABLE},
}
"""What the engines of this package do not offer. The table of docs/architecture.md says the same."""


def _tests(contract: type) -> list[str]:
    return [name for name in vars(contract) if name.startswith("test_")]


def test_no_two_themes_share_the_name_of_a_test() -> None:
    """A test of the same name in a later theme would never run."""
    counted = Counter(name for contract in CONTRACTS for name in _tests(contract))
    assert [name for name, count in counted.items() if count > 1] == []


def test_all_contracts_holds_every_theme() -> None:
    """AllContracts has every theme, and every theme has tests."""
    assert set(CONTRACTS) <= set(AllContracts.__mro__)
    assert list(dict.fromkeys(contract.__module__.rpartition(".")[2] for contract in CONTRACTS)) == list(THEMES)
    assert all(_tests(contract) for contract in CONTRACTS)


@pytest.mark.parametrize("engine", ["memory", "sqlite", "files", "ndjson"])
def test_an_engine_lacks_only_what_is_listed(engine: str, tmp_path: object) -> None:
    """An engine of this package lacks what is listed here, and nothing else."""
    with tallystick.open("memory:" if engine == "memory" else f"{engine}:{tmp_path}/log") as store:
        assert store.log.engine == engine
        assert capabilities.ALL - store.log.capabilities == LACKING.get(engine, frozenset())
