"""Bytes, checksums and links that every implementation must give, for ever."""

from __future__ import annotations

import json
import struct
import uuid
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import Event, NewEvent
from tallystick.event import canonical, chain

GOLDEN = Path(__file__).parents[1] / "golden"
EVENTS: list[dict[str, Any]] = json.loads((GOLDEN / "chain.json").read_text("utf-8"))["events"]
FLOATS: list[dict[str, str]] = json.loads((GOLDEN / "floats.json").read_text("utf-8"))["floats"]


def _event(vector: dict[str, Any]) -> Event:
    return Event(
        position=1,
        stream=vector["stream"],
        seq=vector["seq"],
        type=vector["type"],
        version=vector["version"],
        id=uuid.UUID(vector["id"]).bytes,
        time=vector["time"],
        payload=vector["canonical_payload"].encode(),
        meta=vector["canonical_meta"].encode(),
        checksum=bytes.fromhex(vector["checksum"]),
        link=bytes.fromhex(vector["link"]),
    )


@pytest.mark.parametrize("vector", EVENTS, ids=lambda vector: f"{vector['stream']}@{vector['seq']}")
def test_the_canonical_bytes_and_hashes_are_met(vector: dict[str, Any]) -> None:
    """Payload, meta, checksum and link of each vector come out exactly."""
    assert canonical.encode(vector["payload"]).decode() == vector["canonical_payload"]
    assert canonical.encode(vector["meta"]).decode() == vector["canonical_meta"]
    assert chain.checksum(vector["canonical_payload"].encode()).hex() == vector["checksum"]
    assert chain.link(_event(vector), bytes.fromhex(vector["previous"])).hex() == vector["link"]


def test_appending_the_vectors_gives_their_links() -> None:
    """The path that appends take (`extend`) and the one that verification takes (`link`) agree with the vectors."""
    with tallystick.open("memory:") as store:
        for vector in EVENTS:
            given = {key: vector[key] for key in ("type", "payload", "meta", "version", "time")}
            done = store.append(vector["stream"], NewEvent(**given, id=uuid.UUID(vector["id"])))
            assert (done.seq, done.link.hex()) == (vector["seq"], vector["link"])


@pytest.mark.parametrize("field", ["stream", "seq", "type", "version", "id", "time", "meta", "checksum"])
def test_every_hashed_field_changes_the_link(field: str) -> None:
    """No field of the chain text can be altered without the link showing it."""
    vector = EVENTS[1]
    changed: Any = {
        "stream": "order/43",
        "seq": 2,
        "type": "order.place",
        "version": 3,
        "id": str(uuid.UUID(int=1)),
        "time": 1,
        "meta": {},
        "checksum": "00" * 32,
    }
    altered = vector | {field: changed[field]} | ({"canonical_meta": '{"a":1}'} if field == "meta" else {})
    assert chain.link(_event(altered), chain.GENESIS).hex() != vector["link"]
    assert chain.link(_event(vector), bytes([1] * 32)).hex() != vector["link"]


@pytest.mark.parametrize("vector", FLOATS, ids=lambda vector: vector["text"])
def test_floats_have_exactly_this_text(vector: dict[str, str]) -> None:
    """A library that writes a float in another way is noticed here, before it changes a hash."""
    number = struct.unpack(">d", bytes.fromhex(vector["bits"]))[0]
    exact = b'{"x":' + vector["text"].encode() + b"}"
    assert canonical.encode({"x": number}) == exact
    assert canonical.encode({"x": number, "y": None}) == exact[:-1] + b',"y":null}'
    assert struct.pack(">d", canonical.parse(exact)["x"]).hex() == vector["bits"]


def test_there_are_enough_float_vectors() -> None:
    """The format promises at least twenty."""
    assert len({vector["bits"] for vector in FLOATS}) >= 20
