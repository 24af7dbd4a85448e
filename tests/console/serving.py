"""A server process under test: it chooses a port, is asked over HTTP, and is stopped in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import tallystick
from tallystick.cli import main

HERE = Path(__file__).parent
COMMAND = (sys.executable, "-c", "from tallystick.cli.main import main; main()")
SOURCES = {"PYTHONPATH": str(Path(tallystick.__file__).parents[1])}
SHOP = ("--projection", "shop:Spending", "--reducer", "shop:order")


class Served:
    """The address of a server, ids in its store by name, and a file that slows its projection down."""

    def __init__(self, address: str, named: dict[str, str], pace: Path) -> None:
        self.address = address
        self.named = named
        self.pace = pace

    @property
    def console(self) -> str:
        """The first page."""
        return f"{self.address}/console"

    def look(self, path: str) -> None:
        """Load a page completely."""
        with urllib.request.urlopen(self.console + path, timeout=30) as answer:
            answer.read()

    def append(self, stream: str, *events: tuple[str, Any]) -> int:
        """Append over the API. Returns the last position."""
        body = {"events": [{"type": type_, "payload": payload} for type_, payload in events]}
        request = urllib.request.Request(
            f"{self.address}/v1/streams/{stream}/events",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(json.load(answer)["last_position"])

    def finish_run(self) -> None:
        """Continue the half-finished run in the way that the failed one went."""
        with urllib.request.urlopen(f"{self.address}/v1/streams/run/week-46/events?limit=1000", timeout=30) as answer:
            told = json.load(answer)["events"]
        done = next(index for index, event in enumerate(told) if event["type"] == "NODE_FINISHED") + 1
        self.append("run/week-47", *[(event["type"], event["payload"]) for event in told[done:]])


def tally(*arguments: str) -> dict[str, Any]:
    """Run a command of `tally`. Returns what it printed as JSON."""
    done = CliRunner().invoke(main.tally, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def tally_apart(*arguments: str) -> None:
    """Run a command of `tally` in a separate process, because the browser's driver runs an event loop in this one."""
    subprocess.run([*COMMAND, *arguments], env=os.environ | SOURCES, check=True, capture_output=True, timeout=60)


@contextmanager
def serving(
    url: str, *arguments: str, named: dict[str, str] | None = None, log: Path, **environment: str
) -> Iterator[Served]:
    """Serve a store until the end of the block."""
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*COMMAND, "serve", url, "--port", "0", "--json", *arguments],
            cwd=HERE,
            env=os.environ | SOURCES | environment,
            stdout=subprocess.PIPE,
            stderr=written,
        )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()
            yield Served(json.loads(line)["address"], named or {}, log.parent / "pace")
        finally:
            process.terminate()
            process.communicate(timeout=60)
