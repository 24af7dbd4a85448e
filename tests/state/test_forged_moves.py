"""SAFE-06, SAFE-08: whatever is changed in a whole export, it is refused by name, or what comes out is sound."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import msgspec
import pytest

import tallystick
from tallystick import errors, moving
from tallystick.store.verify import verify
from tallystick.testing.contract.moving import lines_of, sealed_again, with_a_past

pytestmark = pytest.mark.security

HOSTILE = [None, True, -1, 0, 2**63, 2**70, 1.5, "", "zz", "00", "order/1", [], {}, [[1, "zz"]], [[2**64, "00" * 16]]]
TRIES = 160


@pytest.fixture(scope="module")
def past() -> Iterator[list[bytes]]:
    """A whole export of a store with a past."""
    with tallystick.open("memory:") as origin:
        with_a_past(origin)
        yield lines_of(origin)


def _another_value(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """One key of one line has another value, or is not there."""
    at = chance.randrange(len(lines))
    told = msgspec.json.decode(lines[at])
    key = chance.choice(sorted(told))
    if chance.random() < 0.1:
        del told[key]
    else:
        told[key] = chance.choice(HOSTILE)
    return [*lines[:at], msgspec.json.encode(told) + b"\n", *lines[at + 1 :]]


def _another_byte(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """One byte of one line is another."""
    at = chance.randrange(len(lines))
    line = bytearray(lines[at])
    line[chance.randrange(len(line) - 1)] = chance.randrange(256)
    return [*lines[:at], bytes(line), *lines[at + 1 :]]


def _another_order(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Lines are left out, twice there, or in another place."""
    changed = list(lines)
    line = changed.pop(chance.randrange(len(changed)))
    for _ in range(chance.randrange(3)):
        changed.insert(chance.randrange(len(changed) + 1), line)
    return changed


def _sealed(lines: list[bytes]) -> list[bytes]:
    """As a forger would seal it, if there is still a last line to do that with."""
    try:
        return sealed_again(lines)
    except (ValueError, TypeError, KeyError):
        return lines


@pytest.mark.parametrize("change", [_another_value, _another_byte, _another_order])
@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_a_forged_export_is_refused_or_sound(
    past: list[bytes], change: Callable[..., list[bytes]], engine: str, tmp_path: object
) -> None:
    """By an error of ours, which names what is wrong; never by one of Python's, and never in silence."""
    chance = random.Random(f"{change.__name__} {engine}")
    for number in range(TRIES if engine == "memory" else TRIES // 8):
        lines = _sealed(change(past, chance))
        url = "memory:" if engine == "memory" else f"sqlite:{tmp_path}/{number}.db"
        with tallystick.open(url) as target:
            try:
                moving.Intake(lambda _, target=target: target, batch=3).run(iter(lines))
            except errors.TallyError:
                continue
            assert verify(target.log).problems == [], lines
