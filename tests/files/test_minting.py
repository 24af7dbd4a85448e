"""Minting ids in a signal handler, and over many milliseconds."""

from __future__ import annotations

import secrets
import signal
import uuid
from typing import Any

import pytest

from tallystick.event import ids
from tallystick.testing.clock import START

MS = 1_000_000


def test_a_minter_that_a_signal_handler_enters_again_neither_hangs_nor_repeats_an_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LH-03: a caller that comes in while numbers are taken gets other numbers, and ids rise as before."""
    minter, inner = ids.Minter(), list[bytes]()
    randbits = secrets.randbits

    def enter_again(bits: int) -> int:
        monkeypatch.setattr(secrets, "randbits", randbits)
        inner.extend(minter.mint(50, time_ns=START))
        return randbits(bits)

    monkeypatch.setattr(secrets, "randbits", enter_again)
    outer = minter.mint(50, time_ns=START)
    later = minter.mint(50, time_ns=START)
    assert len({*outer, *inner, *later}) == 150
    assert outer + later == sorted(outer + later)
    assert all(uuid.UUID(bytes=item).version == 7 for item in inner)


def test_ids_rise_over_milliseconds_without_fresh_randomness(monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-03: a new millisecond continues with the same tail; ids rise and carry their time."""
    drawn: list[int] = []
    randbits = secrets.randbits

    def counted(bits: int) -> int:
        drawn.append(bits)
        return randbits(bits)

    monkeypatch.setattr(secrets, "randbits", counted)
    minter, found = ids.Minter(), list[Any]()
    for step in range(200):
        found += minter.mint(3, time_ns=START + step * MS)
    assert len(drawn) == 1
    assert found == sorted(set(found))
    assert [uuid.UUID(bytes=item).int >> 80 for item in found[::3]] == [START // MS + step for step in range(200)]
    assert all(uuid.UUID(bytes=item).version == 7 for item in found)


def test_ids_rise_after_an_interrupt_in_the_middle_of_minting(monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-03: Ctrl-C while numbers are being taken does not end the rising of those that are taken later."""
    minter = ids.Minter()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(secrets, "randbits", lambda bits: signal.raise_signal(signal.SIGINT))
        minter.mint(1, time_ns=START)
    found = [item for _ in range(50) for item in minter.mint(1, time_ns=START)]
    assert found == sorted(set(found))
