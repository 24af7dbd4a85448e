"""Who is dead: only what is certain counts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from tallystick.store import leases
from tallystick.store.leases import Owner

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the start time of a process is read from /proc"
)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until its input ends."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def _owner(pid: int, started: int | None = None) -> Owner:
    return Owner(leases.this_host(), pid, leases._process_start(pid) if started is None else started, "0" * 16)


def test_an_open_handle_of_this_process_is_alive() -> None:
    """EVT-09: a handle is alive until it is closed, and handles of one process are told apart."""
    one, two = leases.new_owner(), leases.new_owner()
    assert not leases.is_dead(one)
    leases.retire(one)
    leases.retire(one)
    assert leases.is_dead(one)
    assert not leases.is_dead(two)
    leases.retire(two)


def test_a_process_is_alive_until_it_was_killed(child: subprocess.Popen[bytes]) -> None:
    """EVT-09: the holder counts as alive while its process runs, and as dead once it was killed, also as a zombie."""
    owner = _owner(child.pid)
    assert not leases.is_dead(owner)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert leases.is_dead(owner)
    child.wait()
    assert leases.is_dead(owner)


@linux
def test_a_reused_pid_is_told_by_its_start(child: subprocess.Popen[bytes]) -> None:
    """EVT-09: a process with the holder's pid that started at another time is not the holder."""
    owner = _owner(child.pid)
    assert owner.started > 0
    assert leases.is_dead(msgspec.structs.replace(owner, started=owner.started - 1))
    assert not leases.is_dead(owner)


def test_a_holder_whose_start_is_not_known_is_not_declared_dead(child: subprocess.Popen[bytes]) -> None:
    """EVT-09: where start times cannot be told, a living pid counts as the holder."""
    assert not leases.is_dead(_owner(child.pid, started=0))


def test_a_holder_on_another_host_is_not_declared_dead() -> None:
    """EVT-09: its process cannot be looked at from here."""
    assert not leases.is_dead(Owner("another-host.invalid", 1 << 30, 1, "0" * 16))


def test_a_pid_that_is_not_there_is_dead() -> None:
    """EVT-09: no process, no holder."""
    assert leases.is_dead(_owner((1 << 22) + 1, started=7))


def test_a_handle_of_an_earlier_process_with_our_pid_is_dead() -> None:
    """EVT-09: our own pid in the record of a handle that we never opened was somebody else's."""
    assert leases.is_dead(_owner(os.getpid()))
