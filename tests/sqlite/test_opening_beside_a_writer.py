"""A store that is being written to can be opened at any moment, and is never taken for a damaged one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tallystick

OPENINGS = 150

WRITER = """
import sys, tallystick
from tallystick import NewEvent
store = tallystick.open(sys.argv[1])
batch = [NewEvent("doc.saved", {"text": "x" * 2000}) for _ in range(200)]
print("ready", flush=True)
while True:
    store.append("doc/1", batch)
"""


def test_opening_beside_a_busy_writer_never_looks_like_damage(tmp_path: Path) -> None:
    """EVT-06: a writer that brings its write-ahead log home all the time does not make a reader see damage."""
    url = f"sqlite:{tmp_path}/log.db"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        for _ in range(OPENINGS):
            with tallystick.open(url, readonly=True) as store:
                assert store.holes() == []
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()  # type: ignore[union-attr]
