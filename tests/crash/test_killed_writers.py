"""What an attacker or a disk does to a store whose writer was killed: the same classes for each engine of files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.store.verify import verify

EVENTS = 25
ENGINES = ("files", "sqlite")
_JOURNAL = {"files": "log/current.log", "sqlite": "log-wal"}
_WRITE_AND_DIE = """
import os, signal, sys, tallystick
store = tallystick.open(sys.argv[1])
for number in range(int(sys.argv[2])):
    store.append("order/a", tallystick.NewEvent("thing.done", {"n": number, "text": "x" * 400}))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """One engine after the other."""
    name: str = request.param
    return name


@pytest.fixture
def killed(engine: str, tmp_path: Path) -> str:
    """The URL of a store whose writer was killed after its last acknowledgement."""
    url = f"{engine}:{tmp_path}/log"
    child = subprocess.run([sys.executable, "-c", _WRITE_AND_DIE, url, str(EVENTS)], check=False, timeout=60)
    assert child.returncode == -signal.SIGKILL
    return url


def _all_or_refused(url: str, *, readonly: bool) -> bool:
    """Whether every event is there; False if the store says that it is damaged. There is no third case."""
    try:
        with tallystick.open(url, readonly=readonly) as store:
            if not verify(store.log).ok:
                if not readonly:
                    with pytest.raises(errors.TallyError):
                        store.append("order/a", NewEvent("thing.done", {}))
                return False
            assert [event.position for event in store.events()] == list(range(1, EVENTS + 1))
            return True
    except errors.TallyError:
        return False


def _flip_in_the_newest(path: Path) -> None:
    data = bytearray(path.read_bytes().rstrip(b"\0"))
    size = path.stat().st_size
    data[-150] ^= 2
    path.write_bytes(bytes(data).ljust(size, b"\0"))


def _change_in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data.rstrip(b"\0")) // 2] ^= 2
    path.write_bytes(data)


def _cut(path: Path) -> None:
    os.truncate(path, len(path.read_bytes().rstrip(b"\0")) - 700)


DAMAGES: tuple[Callable[[Path], None], ...] = (_flip_in_the_newest, _change_in_the_middle, _cut, Path.unlink)


@pytest.mark.security
@pytest.mark.parametrize("damage", DAMAGES, ids=["flip_in_the_newest", "flip_in_the_middle", "cut", "removal"])
def test_what_was_acknowledged_before_a_kill_is_there_or_named(
    engine: str, killed: str, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """SAFE-01, SAFE-04: the journal of a killed writer is the only place of its newest commits."""
    damage(tmp_path / _JOURNAL[engine])
    for readonly in (True, False, False):
        assert not _all_or_refused(killed, readonly=readonly)


def test_a_killed_store_is_whole_without_damage(killed: str) -> None:
    """LH-19: the tests above find the damage, and not the kill."""
    for readonly in (True, False, True):
        assert _all_or_refused(killed, readonly=readonly)


@pytest.mark.security
def test_an_older_journal_is_not_taken_for_the_newest(engine: str, tmp_path: Path) -> None:
    """SAFE-01: an older journal next to the store, restored from a copy, loses nothing silently."""
    url = f"{engine}:{tmp_path}/log"
    journal = tmp_path / _JOURNAL[engine]
    with tallystick.open(url) as store:
        store.append("order/a", NewEvent("thing.done", {}))
        older = journal.read_bytes()
        store.append("order/a", [NewEvent("thing.done", {})] * (EVENTS - 1))
    journal.write_bytes(older)
    for readonly in (True, False):
        assert not _all_or_refused(url, readonly=readonly)
