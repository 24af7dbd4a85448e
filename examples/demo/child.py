"""The parent's end of a writer process: its acknowledgements, and the power to kill it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from types import TracebackType

import msgspec

from tallystick import errors


class Ack(msgspec.Struct, frozen=True):
    """The store has told the writer that these events are on disk."""

    first: int
    events: int
    stored: int


class WriterProcess:
    """A running writer. Leaving the `with` block always ends it."""

    def __init__(self, url: str, *, events: int, seed: int, start: int = 0, pretend: bool = False) -> None:
        command = [sys.executable, "-m", "examples.demo.writer", url, f"--events={events}", f"--seed={seed}"]
        command += [f"--start={start}"] + ["--pretend"] * pretend
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._began: float | None = None
        self.seconds = 0.0
        self.killed = False

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def acks(self) -> Iterator[Ack]:
        """Yield the acknowledgements until the writer has ended. A line that was cut off is not one."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            now = time.perf_counter()
            self._began = self._began or now
            self.seconds = now - self._began
            if line.endswith(b"\n"):
                yield Ack(*map(int, line.split()))
        self._process.wait()
        if self._process.returncode and not self.killed:
            raise errors.StoreFailed(operation="the demo's writer", reason=self._complaint())

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed or closed."""
        self.killed = True
        self._process.kill()

    def _complaint(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read().decode(errors="replace").strip()[-500:]

    def __enter__(self) -> WriterProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
