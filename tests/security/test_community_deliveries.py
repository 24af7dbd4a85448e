"""One bad event costs itself: the rest of a delivery is taken, whichever way it came."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tallystick
from tallystick.community import EventLog, messages
from tallystick.community.entry import FeedEntry, FeedStreams, text_of
from tallystick.community.wire_format import to_wire
from tallystick.event import canonical, chain, ids
from tallystick.store.verify import verify
from tallystick.testing.community.people import TIME_NS, Author, gossip, keys
from tests.security.community_club import Club, club

pytestmark = pytest.mark.security

Spoil = Callable[[dict[str, Any]], Any]


@pytest.fixture(params=["memory", "sqlite"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Club]:
    """The founder's node, with two members."""
    with club("memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'log.db'}") as made:
        yield made


SPOILT: dict[str, Spoil] = {
    "a field of another kind": lambda event: event | {"lamport": "nine"},
    "a number with a point": lambda event: event | {"seq": 1.5},
    "a number past 64 bits": lambda event: event | {"time_ns": 1 << 70},
    "a field is missing": lambda event: {name: value for name, value in event.items() if name != "previous"},
    "no object at all": lambda event: [event],
    "nothing": lambda event: None,
    "a wrong signature": lambda event: event | {"signature": "00" * 64},
    "another's community": lambda event: event | {"community_id": keys(9).node},
    "data that is no object": lambda event: event | {"data": [1]},
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_the_rest_of_a_delivery_is_taken(house: Club, spoil: Spoil) -> None:
    """COM-09: over the endpoint: the bad event is counted and named by its id, the good ones are accepted."""
    good, bad = house.member(2), house.member(3)
    events = [msgspec.to_builtins(each) for each in (good.write(), bad.write(), good.write())]
    events[1] = spoil(events[1])
    body = json.dumps({"community_id": house.keys.node, "events": events}).encode()
    answer = house.ask(keys(2), "POST", "/sync/v1/events", body)
    assert answer.status_code == 200, answer.text
    receipt = answer.json()
    assert (receipt["accepted"], receipt["rejected"]) == (2, 1)
    (rejected,) = receipt["rejected_reasons"]
    assert rejected["reason"] == "invalid_signature"
    named = events[1].get("event_id", "") if isinstance(events[1], dict) else ""
    assert rejected["event_id"] == named


TEXTS = {
    "bytes that are no UTF-8": b'"\xff"',
    "infinity": b"1e999",
    "5,000 digits": b"9" * 5000,
    "U+0000": b'"\\u0000"',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("where", ["data", "event_id"])
def test_the_rest_is_taken_though_a_value_cannot_be_read(house: Club, text: bytes, where: str) -> None:
    """COM-09, SAFE-09: a value that no decoder takes costs the event that it is in."""
    good, bad = house.member(2), house.member(3)
    events = [json.dumps(msgspec.to_builtins(each)).encode() for each in (good.write(), bad.write(), good.write())]
    spoilt = (
        events[1].replace(b'{"text": "x"}', b'{"text": %b}' % text) if where == "data" else b'{"event_id":%b}' % text
    )
    body = b'{"community_id":"%b","events":[%b]}' % (
        house.keys.node.encode(),
        b",".join([events[0], spoilt, events[2]]),
    )
    receipt = house.ask(keys(2), "POST", "/sync/v1/events", body).json()
    assert (receipt["accepted"], receipt["rejected"]) == (2, 1)


def test_a_bad_pair_of_evidence_does_not_hide_a_good_one(house: Club) -> None:
    """COM-05: a fork is proven though the pair before it is nonsense."""
    liar = house.member(2)
    pair = [msgspec.to_builtins(to_wire(liar.entry(data={"n": n}), house.keys.node)) for n in (1, 2)]
    body = json.dumps({"community_id": house.keys.node, "evidence": [[{}, {}], pair]}).encode()
    assert house.ask(house.member(3).keys, "POST", "/sync/v1/events", body).status_code == 200
    assert house.log.replica.forks() == {liar.node: 2}


def test_an_answer_with_a_bad_event_in_it_is_read_too(house: Club) -> None:
    """COM-09: what a peer is asked for is judged event by event as well."""
    good = house.member(2)
    events = [msgspec.to_builtins(each) for each in (good.write(), good.write())]
    body = json.dumps({"community_id": house.keys.node, "events": [{"event_id": "x"}, *events]}).encode()
    receipt = house.log.receive(messages.delivery_of(body), peer="peer")
    assert (receipt.accepted, receipt.rejected) == (2, 1)


# --- what another version may add ------------------------------------------------------------------------------------


def test_a_peer_that_adds_a_field_is_understood(house: Club) -> None:
    """COM-09: a field of a later version stops nothing: in the delivery, or in an event, where nothing signs it."""
    good = house.member(2)
    event = msgspec.to_builtins(good.write()) | {"colour": "blue"}
    body = json.dumps({"community_id": house.keys.node, "events": [event], "mood": "good"}).encode()
    assert house.ask(keys(2), "POST", "/sync/v1/events", body).json()["accepted"] == 1


def signed(author: Author, meta: dict[str, Any], **fields: Any) -> FeedEntry:
    """The next event of an author with this in its meta."""
    lamport = author.lamport + 1
    whole = canonical.encode({"alg": "ed25519", "author": author.node, "lamport": lamport} | meta, what="meta")
    payload = canonical.encode(fields.pop("data", {"text": "x"}))
    seq, previous = author.head
    values = {"type": "chat.message.sent", "version": 1, "id": ids.default.mint(1, time_ns=TIME_NS)[0]} | fields
    entry = FeedEntry(author.node, seq + 1, lamport, values["type"], values["version"], values["id"], TIME_NS, payload,
                  whole, chain.checksum(payload), b"", previous, b"")  # fmt: skip
    text = text_of(FeedStreams(author.community).feed(author.node), entry)
    entry = msgspec.structs.replace(entry, link=chain.checksum(text), signature=author.keys.sign(text))
    author.head, author.lamport = (entry.seq, entry.link), lamport
    return entry


def test_what_an_author_adds_is_carried_on(house: Club) -> None:
    """COM-01: what a later version signs into the meta is kept, and passed on as it was signed."""
    author = house.member(2)
    event = to_wire(signed(author, {"mood": {"of": "tomorrow"}}), house.keys.node)
    assert house.deliver(event).accepted == 1
    with tallystick.open("memory:", profile="community") as store:
        other = EventLog(store, house.keys.node)
        gossip(other, house.again())
        found = other.get(event.event_id)
        assert found is not None
        assert found.meta["mood"] == {"of": "tomorrow"}


HOSTILE: dict[str, dict[str, Any]] = {
    "an org that is a number": {"meta": {"org": 5}},
    "an org that is a text": {"meta": {"org": "other", "app": "x"}},
    "an env that is a list": {"meta": {"env": [1]}},
    "tags": {"meta": {"tags": {"a": 1}}},
    "a source": {"meta": {"source": 7, "source_seq": "x"}},
    "an idempotency key": {"meta": {"idempotency_key": ["x"]}},
    "a schema version past 31 bits": {"meta": {}, "version": 1 << 40},
    "the type of what is kept aside": {"meta": {}, "type": "community.aside.event", "data": {"event": {}}},
    "the id of another": {"meta": {}, "id": bytes(16), "data": {"text": "x" * 1_000_000}},
}


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE)
def test_a_signed_event_that_a_store_might_choke_on_costs_itself(house: Club, fields: dict[str, Any]) -> None:
    """COM-03, COM-09: whatever a member signs, the events of others in the same delivery are taken and survive."""
    liar, good = house.member(2), house.member(3)
    first = house.member(4)
    house.deliver(to_wire(signed(first, {}, id=bytes(16)), house.keys.node))
    lamport = house.log.head()
    liar.lamport = good.lamport = lamport
    hostile = to_wire(signed(liar, **{"meta": {}} | fields), house.keys.node)
    receipt = house.deliver(good.write(), hostile, good.write())
    assert receipt.accepted >= 2
    assert house.log.replica.feeds[good.node].head.seq == 3
    again = house.again()
    assert verify(house.log.disk.log).ok
    assert again.replica.fingerprint() == house.log.replica.fingerprint()
    assert house.log.append_local("chat.message.sent", {"text": "goes on"}, house.keys)
