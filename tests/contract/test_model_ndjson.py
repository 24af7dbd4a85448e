"""The ndjson engine compared with the memory model, under random calls to one run."""

from __future__ import annotations

from tallystick.testing.contract import UrlHarness
from tallystick.testing.model import model_test

TestModel = model_test(lambda place: UrlHarness(f"ndjson:{place}/log"))
