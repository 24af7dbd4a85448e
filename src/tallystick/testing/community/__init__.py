"""A deterministic simulator of communities: one thread, one seed, a virtual clock. Nodes do no I/O."""

from __future__ import annotations

from tallystick.testing.community.simulation import Simulation, SimulationSettings

__all__ = ["Simulation", "SimulationSettings"]
