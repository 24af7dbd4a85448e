"""This process, and those that it starts, follow the rules of Windows."""

from __future__ import annotations

import sys

import pytest

from tests.windows_rules import rules


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("the rules are kept by what /proc says, which Linux has")
    for name, value in rules.child_environment(tmp_path_factory.mktemp("site")).items():
        monkeypatch.setenv(name, value)
    rules.install(monkeypatch)
