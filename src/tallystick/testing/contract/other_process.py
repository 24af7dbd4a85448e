"""The other process of a contract test. It runs this file: `other_process.py WHAT URL …`.

It prints one line when it is ready, waits for a line or the end of its input, and prints its answer as a last line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import tallystick
from tallystick import errors
from tallystick.testing.builders import event


class OtherProcess:
    """A second process on the same place. Use it in a `with` block."""

    def __init__(self, what: str, url: str, *arguments: object) -> None:
        command = [sys.executable, "-P", __file__, what, url, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self._line()

    def _line(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline() or '"it ended"')

    def go(self) -> None:
        """Let it continue."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Its answer."""
        return self._line()

    def kill(self) -> None:
        """Send SIGKILL. Nothing is cleaned up."""
        self.process.kill()
        self.process.wait(60)

    def __enter__(self) -> OtherProcess:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()


def _say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def _compete(url: str, stream: str, attempts: str) -> None:
    """Append with exact expectations and return how often that succeeded."""
    with tallystick.open(url) as store:
        _say("ready")
        sys.stdin.readline()
        wins = 0
        for number in range(int(attempts)):
            head = store.stream_head(stream)
            try:
                store.append(stream, event(number), expected=head.seq if head else 0)
                wins += 1
            except errors.Conflict:
                pass
        _say(wins)


def _hold(url: str, stream: str) -> None:
    """Append once, which takes the lease of a run, and keep the store open."""
    with tallystick.open(url) as store:
        _say(store.append(stream, event()).seq)
        sys.stdin.readline()


def _follow(url: str, count: str) -> None:
    """Read while another process writes, until `count` events were seen. Returns their numbers."""
    with tallystick.open(url, readonly=True) as store:
        _say("ready")
        found: list[int] = []
        after = 0
        while len(found) < int(count):
            store.wait(after, timeout=60)
            page = store.read(after=after)
            found += [item.data["n"] for item in page.events]
            after = page.through
        _say(found)


def _try(url: str) -> None:
    """Try to open for writing and return the outcome."""
    try:
        tallystick.open(url).close()
        _say("opened")
    except errors.TallyError as refused:
        _say(type(refused).__name__)


ROLES: dict[str, Callable[..., None]] = {"compete": _compete, "hold": _hold, "follow": _follow, "try": _try}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
