"""The Lamport clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import tallystick
from tallystick import errors
from tallystick.community import EventLog, KeyPair, LamportClock
from tallystick.event import chain, limits
from tallystick.testing.community.people import Author


def test_lamport_send_increments() -> None:
    """COM-02: every send is one more than the last."""
    clock = LamportClock(4)
    assert [clock.tick_for_send(), clock.tick_for_send()] == [5, 6]
    assert clock.current == 6


def test_lamport_observe_caps_above() -> None:
    """COM-02: a receipt moves the clock past the larger of both, and never past the largest number there is."""
    clock = LamportClock(4)
    clock.observe(10)
    assert clock.current == 11
    clock.observe(3)
    assert clock.current == 12
    clock.observe(limits.INT_MAX)
    assert clock.current == limits.INT_MAX
    with pytest.raises(errors.EventLogError):
        clock.tick_for_send()


class Disk:
    """A community's file with four events of the founder, into which somebody writes past everything."""

    def __init__(self, path: Path, key: KeyPair) -> None:
        self.path, self.key = path, key
        with tallystick.open(f"sqlite:{path}", profile="community") as store:
            log = EventLog(store, key.node, node=key.node)
            log.append_local("community.created", {"name": "x"}, key)
            for number in range(3):
                log.append_local("chat.message.sent", {"n": number}, key)

    def change(self, statement: str, *values: object) -> None:
        """Write into the file."""
        connection = sqlite3.connect(self.path)
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f'DROP TRIGGER "{name}"')
        connection.execute(statement, values)
        for _, text in triggers:
            connection.execute(text)
        connection.commit()
        connection.close()

    def code(self) -> str:
        """With which code opening the log is refused; nothing if it is not."""
        with tallystick.open(f"sqlite:{self.path}", profile="community") as store:
            try:
                EventLog(store, self.key.node, node=self.key.node)
            except errors.EventLogError as refusal:
                return f"{refusal.code}: {refusal.reason}"
        return ""


@pytest.fixture
def disk(tmp_path: Path, founder: KeyPair) -> Disk:
    """A file to be spoilt."""
    return Disk(tmp_path / "a.db", founder)


def test_a_log_that_is_as_it_was_written_is_opened(disk: Disk) -> None:
    """COM-02: the checks at opening find nothing where there is nothing."""
    assert disk.code() == ""


def test_a_clock_that_lost_events_is_damage(disk: Disk) -> None:
    """COM-02: a feed that ends before its end as the store keeps it, apart from the events, would set the clock back,
    and the node would sign places twice: the log is not served."""
    disk.change("DELETE FROM events WHERE position = (SELECT max(position) FROM events)")
    disk.change("UPDATE sqlite_sequence SET seq = 3 WHERE name = 'events'")
    assert disk.code().startswith("db_corrupt: ")
    assert "ends" in disk.code()


def test_a_lamport_that_does_not_rise_is_damage(disk: Disk) -> None:
    """COM-02: also where checksum and link were made to fit: clocks rise along a feed, or the log is not served."""
    with tallystick.open(f"sqlite:{disk.path}", profile="community") as store:
        *_, before, last = store.events()
    lower = msgspec.structs.replace(last, meta=last.meta.replace(b'"lamport":4', b'"lamport":2'))
    link = chain.checksum(chain.text(lower, before.link))
    disk.change("UPDATE events SET meta = ?, link = ? WHERE position = ?", lower.meta, link, last.position)
    assert disk.code().startswith("db_corrupt: ")
    assert "lamport" in disk.code()


def test_the_clock_is_kept_with_the_events(open_log: Callable[..., EventLog], founder: KeyPair) -> None:
    """COM-02: after a restart the clock stands where it stood, after sends and after receipts."""
    log = open_log(founder.node, node=founder.node, file="a.db")
    log.append_local("community.created", {}, founder)
    friend = Author(KeyPair(b"\x07" * 32), founder.node)
    log.append_local("community.member.invited", {"node": friend.node}, founder)
    friend.lamport = 40
    log.append_received(friend.write("community.member.joined", {"invite": friend.node}))
    assert log.replica.clock.current == 42
    assert log.append_local("chat.message.sent", {"text": "later"}, founder).lamport == 43
    again = open_log(founder.node, node=founder.node, file="a.db")
    assert again.replica.clock.current == log.replica.clock.current == 43
