"""Whole communities under one seed each: after the trouble, everyone agrees."""

from __future__ import annotations

import pytest

from tallystick.testing.community import Simulation, SimulationSettings

SEEDS, PART = 1000, 50


@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_honest_nodes_converge(first: int) -> None:
    """COM-07, COM-09, COM-10: 1,000 seeds, 3 to 7 nodes, a bad network, crashes, backups, floors and one liar: after
    healing all honest nodes have the same counted set, order, views and fingerprint."""
    for seed in range(first, first + PART):
        outcomes = Simulation(seed).run()
        assert all(outcome == outcomes[0] for outcome in outcomes), f"seed {seed} parts the nodes"
        assert outcomes[0]["order"], f"seed {seed} counts nothing"


def test_a_seed_reproduces() -> None:
    """A failing seed can be looked at: the same seed is the same story, to the last byte."""
    assert Simulation(7).run() == Simulation(7).run()
    assert Simulation(7).run() != Simulation(8).run()


@pytest.mark.parametrize("seed", [57, 702, 1194])
def test_seeds_that_once_parted_the_nodes(seed: int) -> None:
    """COM-10: a lost floor, a backup older than one, a floor over one branch of a fork."""
    outcomes = Simulation(seed).run()
    assert all(outcome == outcomes[0] for outcome in outcomes)


def test_heads_alone_lose_events() -> None:
    """COM-09: with the highest lamport per type and nothing else, honest nodes on a bad network stay apart for ever."""
    settings = SimulationSettings(heads_only=True, byzantine=False, floors=False)
    parted = [seed for seed in range(20) if len({o["fingerprint"] for o in Simulation(seed, settings).run()}) > 1]
    assert len(parted) > 10


def test_ends_of_feeds_alone_miss_forks() -> None:
    """COM-09: without reconciliation a fork that nobody has seen from both sides keeps nodes apart."""
    settings = SimulationSettings(reconciles=False)
    seeds = [seed for seed in range(60) if len({o["fingerprint"] for o in Simulation(seed, settings).run()}) > 1]
    assert seeds
