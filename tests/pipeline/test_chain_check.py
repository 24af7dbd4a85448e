"""Checking many events at once gives the same result as checking one at a time, and as the chain's own code."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import tallystick
from tallystick import NewEvent
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.pipeline.source import column_hashes
from tallystick.pipeline.source.columns import COLUMNS, batch_maker
from tallystick.pipeline.verify import chain_check
from tallystick.pipeline.verify.chain_check import BREAK, EDGE, FACT, SUSPECT, ChainChecker

Change = Callable[[Event], dict[str, Any]]
CHANGES: dict[str, Change] = {
    "nothing": lambda event: {},
    "payload": lambda event: {"payload": b'{"n":-1}'},
    "no payload": lambda event: {"payload": None},
    "no text": lambda event: {"payload": b"\xff\xfe"},
    "meta": lambda event: {"meta": b'{"\xff":1}'},
    "checksum": lambda event: {"checksum": bytes(32)},
    "short checksum": lambda event: {"checksum": b"short"},
    "link": lambda event: {"link": bytes(32)},
    "short link": lambda event: {"link": b"short"},
    "time": lambda event: {"time": event.time + 1},
    "seq": lambda event: {"seq": event.seq + 1},
    "position": lambda event: {"position": max(event.position - 3, 1)},
    "stream": lambda event: {"stream": "order/o1"},
    "id": lambda event: {"id": bytes(16)},
    "signature": lambda event: {"signature": b"somebody's"},
}


def history(chance: random.Random) -> list[Event]:
    """Interleaved streams, with control facts and a feed."""
    names = ["order/o1", "order/o2", "é/日", "tally.stream/order:o1", "community.ab/main", "community.ab/aside.x"]
    ends: dict[str, tuple[int, bytes]] = {}
    found = []
    for position in range(1, 60):
        stream = chance.choice(names)
        seq, link = ends.get(stream, (0, chain.GENESIS))
        payload, meta = b'{"n":%d}' % position, chance.choice([b"{}", '{"org":"é"}'.encode()])
        event = Event(position, stream, seq + 1, "order.placed", 1, bytes([position] * 16), position, payload, meta,
                      chain.checksum(payload), b"")  # fmt: skip
        event = msgspec.structs.replace(event, link=chain.link(event, link))
        ends[stream] = (event.seq, event.link)
        found.append(event)
    return found


def said(events: list[Event], size: int) -> list[dict[str, Any]]:
    """The rows of events that are checked in batches of this size."""
    pieces, make = ChainChecker(), batch_maker(COLUMNS)
    found = [one for at in range(0, len(events), size) for one in pieces.take(make(events[at : at + size]))]
    for one in pieces.close():
        found += chain_check.edge_rows(one) if isinstance(one, pa.RecordBatch) else [one]
    return sorted(found, key=repr)


@pytest.mark.security
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_said_of_events_does_not_depend_on_how_many_come(change: str) -> None:
    """SAFE-03, PIPE-03: the rows are the same whether events are checked one at a time or at once."""
    chance = random.Random(change)
    for _ in range(6):
        events = history(chance)
        for at in chance.sample(range(len(events)), 3):
            events[at] = msgspec.structs.replace(events[at], **CHANGES[change](events[at]))
        alone = said(events, 1)
        for size in (2, 7, 100):
            assert said(events, size) == alone


@pytest.mark.security
@pytest.mark.parametrize("change", ["payload", "no payload", "checksum", "link", "meta", "time", "id"])
def test_what_does_not_follow_is_found(change: str) -> None:
    """SAFE-03, PIPE-03: only the links and the checksum of an event and the one before it decide."""
    chance = random.Random(change)
    events = [event for event in history(chance) if event.stream.startswith(("order/", "é/"))]
    at = chance.choice([at for at, event in enumerate(events) if event.seq > 1])
    events[at] = msgspec.structs.replace(events[at], **CHANGES[change](events[at]))
    ends: dict[str, bytes] = {}
    wrong: dict[str, set[int]] = {BREAK: set(), SUSPECT: set()}
    for event in events:
        if event.stream in ends and chain.link(event, ends[event.stream]) != event.link:
            wrong[BREAK].add(event.position)
        if event.payload is None or chain.checksum(event.payload) != event.checksum:
            wrong[SUSPECT].add(event.position)
        ends[event.stream] = event.link
    found = said(events, 100)
    assert {kind: {one["position"] for one in found if one["kind"] == kind} for kind in wrong} == wrong
    assert wrong[BREAK] | wrong[SUSPECT]


def test_of_a_sound_log_only_edges_and_facts_are_said(tmp_path: Any) -> None:
    """PIPE-03: an event that follows the one before it leaves no row."""
    with tallystick.open(f"files:{tmp_path}/log") as store:
        for number in range(40):
            store.append(f"order/o{number % 4}", NewEvent("order.placed", {"n": number}))
        found = said(list(store.events()), 100)
    kinds = [one["kind"] for one in found]
    assert (kinds.count(EDGE), kinds.count(BREAK), kinds.count(SUSPECT)) == (len({*_streams(found)}), 0, 0)
    assert set(kinds) <= {EDGE, FACT, chain_check.COUNT}


def test_an_edge_begins_a_stream_only_with_seq_1_and_the_link_of_a_first_event() -> None:
    """PIPE-03: any other first event of a piece leaves the text that its link hashes."""
    events = [event for event in history(random.Random(1)) if event.stream.startswith(("order/", "é/"))]
    firsts = [next(at for at, event in enumerate(events) if event.stream == stream) for stream in ("order/o1", "é/日")]
    events[firsts[0]] = msgspec.structs.replace(events[firsts[0]], time=0)
    edges = {one["position"]: one for one in said(events, 100) if one["kind"] == EDGE}
    assert [edges[events[at].position]["begins"] for at in firsts] == [False, True]
    assert [edges[events[at].position]["rest"] is None for at in firsts] == [False, True]
    edges = {one["stream"]: one for one in said(events[10:], 100) if one["kind"] == EDGE}
    assert edges
    assert not any(one["begins"] for one in edges.values())
    for event in events[10:]:
        if event.position == edges[event.stream.encode()]["position"]:
            before = chain.text(event, chain.GENESIS).partition(chain.GENESIS.hex().encode())[2]
            assert edges[event.stream.encode()]["rest"] == before


def _streams(found: list[dict[str, Any]]) -> list[bytes]:
    return [one["stream"] for one in found if one["kind"] == EDGE]


def test_hex_of_parts_of_columns() -> None:
    """The hex of bytes in any slice of a column, and an empty text for null."""
    column = pa.array([b"\x00\xff", None, b"", b"a" * 32], pa.binary())
    wanted = [b"00ff", b"", b"", b"61" * 32]
    for begin in range(5):
        for end in range(begin, 5):
            assert column_hashes.hexes(column.slice(begin, end - begin)).to_pylist() == wanted[begin:end]
    assert column_hashes.hash_to(column, pa.array([b"", chain.checksum(b""), chain.checksum(b""), None])).tolist() == [
        False,
        False,
        True,
        False,
    ]
