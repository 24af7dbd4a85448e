"""The writer lease of a run: one writer at a time, with a number that fences off earlier holders.

A handle takes the lease with its first append to `run/…` and keeps it until it closes. While the holder is alive, other
handles are refused, whatever they expect. When the holder is dead, the next handle takes over with a higher number. If
the old holder wakes up again, that number refuses it.
"""

from __future__ import annotations

import os
import secrets
import socket

import msgspec

LEASED_KIND = "run"
_FIRST_NAMESPACE = "pid:[4026531836]"

_live: set[str] = set()  # handles of this process that are open


class Owner(msgspec.Struct, frozen=True, array_like=True):
    """The holder of a lease: a handle in a process on a host. The start time shows whether a pid was reused.

    A container with its own numbering of processes counts as a host of its own, even if its name is the same.
    """

    host: str
    pid: int
    started: int
    handle: str

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """The latest lease on a stream. `owner` None means that it was released."""

    stream: str
    number: int
    owner: Owner | None


def new_owner() -> Owner:
    """The identity of a handle that is being opened in this process."""
    handle = secrets.token_hex(8)
    _live.add(handle)
    return Owner(this_host(), os.getpid(), _process_start(os.getpid()), handle)


def retire(owner: Owner) -> None:
    """Note that the handle was closed."""
    _live.discard(owner.handle)


def is_dead(owner: Owner) -> bool:
    """Whether the holder is certainly gone. A holder on another host counts as alive: nobody can tell from here."""
    if owner.host != this_host():
        return False
    if owner.pid == os.getpid():
        return owner.handle not in _live
    started = _process_start(owner.pid)
    return started < 0 or (started > 0 and owner.started > 0 and started != owner.started)


def this_host() -> str:
    """Where a process id means this process: the name of the host, and which numbering of processes on it."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = _FIRST_NAMESPACE
    name = socket.gethostname()
    return name if namespace == _FIRST_NAMESPACE else f"{name}/{namespace}"


def _process_start(pid: int) -> int:
    """When a process started, in its system's own units; 0 if that cannot be told, -1 if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        return -1 if fields[0] in (b"Z", b"X") else int(fields[19])  # a zombie writes nothing more
    except (OSError, IndexError, ValueError):
        pass  # no /proc, or it hides the processes of other users: ask for the process itself
    return 0 if _exists(pid) else -1


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
