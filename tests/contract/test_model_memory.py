"""The memory engine compared with the memory model, under random calls."""

from __future__ import annotations

from tallystick.testing.contract import UrlHarness
from tallystick.testing.model import model_test

TestModel = model_test(lambda place: UrlHarness("memory:"))
