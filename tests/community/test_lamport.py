"""The Lamport clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallystick import errors
from tallystick.community import EventLog, KeyPair, LamportClock
from tallystick.event import limits
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


def test_a_clock_behind_its_head_is_damage() -> None:
    """COM-02: at opening the clock is at least the highest stored lamport, or the log is not served."""
    with pytest.raises(errors.EventLogError) as refusal:
        LamportClock(4).check(5)
    assert refusal.value.code == "db_corrupt"


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
