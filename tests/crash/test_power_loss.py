"""Power taken away from a real ext4, where this machine lets us mount one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = int(os.environ.get("TALLY_POWER_ROUNDS", "25"))
RIG = Path(__file__).with_name("power_loss_rig.py")
TOOLS = ("unshare", "mkfs.ext4", "mount", "umount")


def why_not(place: Path) -> str:
    """Why no power can be cut here; empty if it can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not found: run as root on Linux with e2fsprogs to cut the power of a real ext4"
    image, mounted = place / "try.img", place / "try"
    mounted.mkdir()
    with open(image, "wb") as file:
        file.truncate(16 << 20)
    script = f"mkfs.ext4 -q -F {image} && mount -o loop {image} {mounted}"
    tried = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False)
    return (
        f"no ext4 can be mounted here ({tried.stderr.strip()}): run as root to cut its power"
        if tried.returncode
        else ""
    )


@pytest.mark.parametrize("engine", ["files", "sqlite"])
def test_what_was_acknowledged_survives_a_power_cut(engine: str, tmp_path: Path) -> None:
    """LH-19: a real ext4 loses power under a writer, is mounted again, and every acknowledged event is there."""
    if reason := why_not(tmp_path):
        pytest.skip(reason)
    command = ["unshare", "--mount", sys.executable, str(RIG), str(tmp_path), engine, str(ROUNDS), "11"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["wrong"] == []
    assert summary["events"] > ROUNDS, "the writer hardly wrote"
