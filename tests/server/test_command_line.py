"""`tally serve`: where it listens, what it refuses, and what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tallystick import NewEvent, errors, open
from tallystick.server.settings import Limits, Settings, limits_from


def tally(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command that must end by itself."""
    command = [sys.executable, "-c", "from tallystick.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | variables)


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    """CP-10: without any token in the store it refuses to listen there, with exit status 2."""
    done = tally("serve", f"files:{tmp_path}/log", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2
    assert "refusing to listen on '0.0.0.0' while the store has no token" in done.stderr


def test_a_port_that_is_taken_is_named(start: Any, tmp_path: Path) -> None:
    """Exit status 2 and one sentence, no trace."""
    started = start("memory:")
    done = tally("serve", "memory:", "--port", str(started.port))
    assert done.returncode == 2
    assert f"cannot reach 127.0.0.1:{started.port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_invalid_limit_is_refused() -> None:
    """A misspelt variable or a bad number is not ignored."""
    assert limits_from({"TALLY_SERVE_BODY_BYTES_MAX": "7", "HOME": "/"}) == Limits(body_bytes_max=7)
    for variables in (
        {"TALLY_SERVE_BODY_BYTES_MAXX": "7"},
        {"TALLY_SERVE_BODY_BYTES_MAX": "x"},
        {"TALLY_SERVE_BODY_BYTES_MAX": "0"},
        {"TALLY_SERVE_BODY_SECONDS": "nan"},
        {"TALLY_SERVE_BODY_SECONDS": "inf"},
    ):
        with pytest.raises(errors.InvalidValue):
            limits_from(variables)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("db1", False)],
)
def test_what_counts_as_this_machine(host: str, loopback: bool) -> None:
    """A name may resolve to any address, so only `localhost` counts as this machine."""
    assert Settings(url="", host=host).is_loopback is loopback


def test_reducers_projections_and_catalogs_of_the_user_are_served(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is named as MODULE:NAME is found from the working directory and used."""
    (tmp_path / "shop.py").write_text(
        "from tallystick.projections import Projection\n"
        "from tallystick.state import reducer\n"
        "@reducer(name='total', initial=0)\n"
        "def total(state, event):\n    return state + event.data['n']\n"
        "class Totals(Projection):\n"
        "    name, version, types, key = 'totals', 1, ('noted',), 'stream'\n"
        "    def initial(self):\n        return 0\n"
        "    def apply(self, state, event):\n        return state + event.data['n']\n"
    )
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:{tmp_path}/log"
    with open(url) as store:
        store.append("order/1", [NewEvent("noted", {"n": n}) for n in (1, 2, 3)])
    started = start(url, "--reducer", "shop:total", "--projection", "shop:Totals")
    with httpx.Client(base_url=started.address, timeout=60) as client:
        assert client.get("/v1/streams/order/1/state?reducer=total").json()["state"] == 6
        reached = client.get("/v1/wait?projection=totals&position=3&timeout=30").json()["reached"]
    assert reached == 3
    assert started.terminate() == (0, "")
