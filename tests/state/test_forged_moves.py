"""SAFE-06, SAFE-08: a changed whole export is refused by name, or the result is sound."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator

import msgspec
import pytest

import tallystick
from tallystick import errors, moving
from tallystick.event import chain, ids
from tallystick.event.model import Event
from tallystick.moving import frame
from tallystick.store.verify import verify
from tallystick.testing.contract.transfer import lines_of, sealed_again, with_a_past

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
    """One key of one line has another value, or is missing."""
    at = chance.randrange(len(lines))
    told = msgspec.json.decode(lines[at])
    key = chance.choice(sorted(told))
    if chance.random() < 0.1:
        del told[key]
    else:
        told[key] = chance.choice(HOSTILE)
    return [*lines[:at], msgspec.json.encode(told) + b"\n", *lines[at + 1 :]]


def _another_byte(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """One byte of one line is changed."""
    at = chance.randrange(len(lines))
    line = bytearray(lines[at])
    line[chance.randrange(len(line) - 1)] = chance.randrange(256)
    return [*lines[:at], bytes(line), *lines[at + 1 :]]


def _another_order(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Lines are missing, repeated or moved."""
    changed = list(lines)
    line = changed.pop(chance.randrange(len(changed)))
    for _ in range(chance.randrange(3)):
        changed.insert(chance.randrange(len(changed) + 1), line)
    return changed


def _sealed(lines: list[bytes]) -> list[bytes]:
    """The lines with a matching last line, as a forger would write it, if there still is one."""
    try:
        return sealed_again(lines)
    except (ValueError, TypeError, KeyError):
        return lines


@pytest.mark.parametrize("change", [_another_value, _another_byte, _another_order])
@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_a_forged_export_is_refused_or_sound(
    past: list[bytes], change: Callable[..., list[bytes]], engine: str, tmp_path: object
) -> None:
    """It is refused with one of our errors, never with one of Python's, and never silently accepted."""
    chance = random.Random(f"{change.__name__} {engine}")
    for number in range(TRIES if engine == "memory" else TRIES // 8):
        forged = _sealed(change(past, chance))
        url = "memory:" if engine == "memory" else f"sqlite:{tmp_path}/{number}.db"
        with tallystick.open(url) as target:
            try:
                moving.import_lines(target, forged, batch=3)
            except errors.TallyError:
                continue
            assert verify(target.log).problems == [], forged


FORMS = {
    "a payload that is no object": {"payload": b"[]"},
    "a payload that is not canonical": {"payload": b'{ "n":1}'},
    "a payload with a repeated key": {"payload": b'{"n":1,"n":2}'},
    "meta that is no object": {"meta": b"[]"},
    "an org that is no text": {"meta": b'{"org":5}'},
    "a source number that is none": {"meta": b'{"source":"s","source_seq":"x"}'},
    "a type that is none": {"type": "no type"},
    "a stream that is none": {"stream": "no stream"},
    "a version that is none": {"version": 0},
    "a time that is none": {"time": -1},
    "a signature that is none": {"signature": b"x"},
    "a fact without its form": {"stream": "tally.stream/order:1", "type": "tally.erased", "payload": b"{}"},
    "a fact about another stream": {
        "stream": "tally.stream/order:1",
        "type": "tally.pruned",
        "payload": b'{"stream":"order/2"}',
    },
}


def forged(event: Event) -> bytes:
    """The line of an event that no store would write."""
    fields = {
        "position": event.position,
        "stream": event.stream,
        "seq": event.seq,
        "type": event.type,
        "version": event.version,
        "id": ids.to_text(event.id),
        "time": event.time,
        "payload": msgspec.Raw(event.payload or b"null"),
        "meta": msgspec.Raw(event.meta),
        "checksum": event.checksum.hex(),
        "link": event.link.hex(),
        "signature": event.signature.hex() if event.signature else None,
    }
    return msgspec.json.encode(fields) + b"\n"


@pytest.mark.parametrize("name", FORMS)
def test_an_event_that_could_not_be_stored_is_not_taken_over(name: str) -> None:
    """SAFE-06: even with a matching checksum and link, it is refused by its form."""
    payload = FORMS[name].get("payload", b'{"n":1}')
    plain = Event(1, "order/1", 1, "a", 1, bytes(15) + b"x", 1, payload, b"{}", chain.checksum(payload), b"")
    made = msgspec.structs.replace(plain, **FORMS[name])
    made = msgspec.structs.replace(made, link=chain.link(made, chain.GENESIS))
    begin = frame.encode(frame.Begin(store_id="", engine="", profile="plain", head=1, cuts=0, erased=0, ordered=True))
    body = begin + forged(made)
    end = frame.End(events=1, pruned=0, cuts=0, snapshots=0, head=1, sha256=hashlib.sha256(body).hexdigest())
    with tallystick.open("memory:") as target, pytest.raises(moving.ImportStopped):
        moving.import_lines(target, (body + frame.encode(end)).splitlines(keepends=True))
