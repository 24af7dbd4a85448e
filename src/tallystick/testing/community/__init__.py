"""A deterministic simulator of communities: one thread, one seed, a virtual clock; nodes are pure state machines."""

from __future__ import annotations

from tallystick.testing.community.simulation import Simulation, SimulationSettings

__all__ = ["Simulation", "SimulationSettings"]
