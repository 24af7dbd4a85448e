"""`tally serve` in a process of its own, as an operator runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast
from urllib.parse import urlsplit

_TALLY = "from tallystick.cli.main import main; main()"

Address = tuple[str, int]


@contextmanager
def served(url: str) -> Iterator[Address]:
    """A service on a free port, ended with SIGTERM; it must then say that everything went well."""
    command = [sys.executable, "-c", _TALLY, "serve", url, "--port", "0", "--json"]
    environment = dict(os.environ, TALLY_LOG="warning")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    try:
        line = cast("IO[bytes]", process.stdout).readline()
        if not line:
            raise RuntimeError(f"the service ended with {process.wait()}")
        parts = urlsplit(json.loads(line)["address"])
        yield str(parts.hostname), int(parts.port or 0)
    finally:
        process.terminate()
        process.wait()
        cast("IO[bytes]", process.stdout).close()
    if process.returncode:
        raise RuntimeError(f"the service ended with {process.returncode}")
