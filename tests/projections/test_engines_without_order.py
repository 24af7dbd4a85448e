"""Projections and consumers read by position, so an engine without a global order refuses them by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import tallystick
from tallystick import errors
from tallystick.projections import Consumer, Live
from tallystick.testing.shop import OrderTotals


def test_a_log_of_runs_refuses_projections_and_consumers(tmp_path: Path) -> None:
    """CP-04: positions of an ndjson store are not the order of commits; a checkpoint over them would miss events."""
    with tallystick.open(f"ndjson:{tmp_path}/runs") as store:
        for make in (lambda: Live(store, OrderTotals()), lambda: Consumer(store, "mailer", lambda event: None)):
            with pytest.raises(errors.UnsupportedCapability) as refusal:
                make()
            assert refusal.value.capability == "global_order"
