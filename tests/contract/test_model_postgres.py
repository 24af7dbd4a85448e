"""The Postgres engine compared with the memory model, under random calls."""

from __future__ import annotations

from tallystick.testing.model import model_test
from tallystick.testing.postgres import PostgresHarness

TestModel = model_test(lambda place: PostgresHarness())
