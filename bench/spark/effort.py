"""Processor time of Spark: of this process and all that it started, the JVM and the Python workers separately.

On a busy machine, the clock says little about a job, but the processor time of its processes says nearly everything.
It is read from `/proc`, so only on Linux; elsewhere it is unknown.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


class Effort(msgspec.Struct, frozen=True):
    """Seconds of processor time so far."""

    jvm: float = 0.0
    python: float = 0.0

    @property
    def whole(self) -> float:
        """Of all of them together."""
        return self.jvm + self.python

    def since(self, before: Effort) -> Effort:
        """The time since an earlier reading."""
        return Effort(self.jvm - before.jvm, self.python - before.python)


def now() -> Effort:
    """The processor time of this process and its descendants, including those that have ended and were waited for."""
    parents, names, seconds = {}, {}, {}
    for place in _PROC.glob("[0-9]*"):
        try:
            text = (place / "stat").read_text()
        except OSError:  # it has just ended
            continue
        name, _, rest = text.partition("(")[2].rpartition(") ")[0], None, text.rpartition(") ")[2].split()
        pid = int(place.name)
        parents[pid], names[pid] = int(rest[1]), name
        seconds[pid] = sum(map(int, rest[11:15])) / _TICKS  # user and system, its own and of children that ended
    ours = [pid for pid in parents if _is_below(pid, os.getpid(), parents)]
    jvm = sum(seconds[pid] for pid in ours if names[pid] == "java")
    return Effort(jvm, sum(seconds[pid] for pid in ours) - jvm)


def _is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid and pid != root:
        pid = parents.get(pid, 0)
    return pid == root


def of(work: Callable[[], object]) -> Effort:
    """What some work took."""
    before = now()
    work()
    return now().since(before)
