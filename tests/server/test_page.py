"""docs/service.md is true: its examples are run, its limits are those there are, and its routes exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tallystick.server.settings import PREFIX, Limits

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:8787"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_examples_give_what_the_page_shows(serve: Any, tmp_path: Path) -> None:
    """All curl lines are run in order against a new store; … matches anything."""
    served = serve(f"files:{tmp_path}/log")
    played = 0
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        for command, expected in re.findall(r"^\$ (curl .*)\n([^$]*)", block, re.MULTILINE):
            line = command.replace(ADDRESS, f"http://127.0.0.1:{served.port}")
            got = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60).stdout
            form = re.escape(expected.strip()).replace("…", ".*")
            assert re.fullmatch(form, got.strip()), f"{command}\n--- expected\n{expected}\n--- got\n{got}"
            played += 1
    assert played >= 10


def test_every_limit_is_on_the_page() -> None:
    """The page lists every limit with its variable, and no variable that no longer exists."""
    named = set(re.findall(rf"`({PREFIX}\w+)`", PAGE))
    there = {PREFIX + name.upper() for name in Limits.__struct_fields__}
    assert named <= there
    assert there - named <= OPERATING


OPERATING = {PREFIX + "FREE_BYTES_MIN"}  # described in docs/operations.md


def test_every_route_on_the_page_exists(serve: Any) -> None:
    """The paths of its table are in the OpenAPI document."""
    paths = serve().client.get("/openapi.json").json()["paths"]
    named = set(re.findall(r"`(?:GET|POST) (/v1/[^`]*)`", PAGE))
    assert named
    assert named <= paths.keys()
