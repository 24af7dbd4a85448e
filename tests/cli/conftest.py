"""`tally` in this process, with the real engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tallystick.cli.main import tally as group

Tally = Callable[..., Result]


@pytest.fixture
def tally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tally:
    """Run `tally` with arguments, in its own directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(group, [str(argument) for argument in arguments], input=stdin, prog_name="tally")

    return run


@pytest.fixture(params=["files:log", "sqlite:log.db"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a store, once with each engine."""
    return str(request.param)


@pytest.fixture
def lines() -> Callable[[Result], list[dict[str, Any]]]:
    """The JSON objects of an output, one per line."""

    def parsed(result: Result) -> list[dict[str, Any]]:
        return [json.loads(line) for line in result.stdout.split("\n") if line]

    return parsed
