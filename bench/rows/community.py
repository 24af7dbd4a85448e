"""Communities: taking events from peers, finding differences, and joining with a snapshot."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

import tallystick
from bench.harness import Bar, Row, Spec, alternate, measures
from bench.workshop import Workshop, remove, url
from tallystick.community import EventLog, KeyPair, Snapshot, build_snapshot, declare_floor, snapshot, wire_format
from tallystick.community.entry import FeedEntry, FeedStreams, mint
from tallystick.community.items import Item, Items
from tallystick.community.messages import Delivery
from tallystick.community.negentropy import Reconciler
from tallystick.event import chain, ids
from tallystick.testing.community.people import engine_over, gossip

BATCH = 1000
MEMBERS = 10
ITEMS = 1_000_000
DIFFERENCES = 100

RECEIVE = Spec(
    name="community: received events, verified and stored, batches of 1,000",
    unit="events/s",
    bar=Bar("value", ">=", 8000),
    note="SQLite, ten authors, from JSON; signature, chain and rank checked, one fsync a batch; by CPU time",
    covers=("COM-03",),
)
RECONCILE = Spec(
    name="community: reconciling 1,000,000 items that differ in 100",
    unit="s",
    bar=Bar("value", "<=", 1.5),
    note="both sides in one thread, the running sums of one side made anew, as after a change; by CPU time",
    covers=("COM-09",),
)
BYTES = Spec(
    name="community: bytes of reconciling 1,000,000 items that differ in 100",
    unit="KB",
    bar=Bar("value", "<=", 200),
    note="all messages of both sides",
    covers=("COM-09",),
)
JOIN = Spec(
    name="community: joining 200,000 events with a snapshot",
    unit="events/s",
    against="joining with the whole log",
    bar=Bar("ratio", ">=", 10),
    note="SQLite; the snapshot unpacked, verified and restored, and the tail; against every event verified and folded",
    covers=("COM-10",),
)


class Feeds:
    """Signed events of ten authors, made once."""

    def __init__(self, count: int) -> None:
        self.keys = [KeyPair(bytes([number + 1]) * 32) for number in range(MEMBERS)]
        self.community = self.keys[0].node
        self.entries: list[FeedEntry] = []
        self._heads = {key.node: (0, chain.GENESIS) for key in self.keys}
        self._write(self.keys[0], "community.created", {"name": "bench"})
        for key in self.keys[1:]:
            self._write(self.keys[0], "community.member.invited", {"node": key.node})
        for key in self.keys[1:]:
            self._write(key, "community.member.joined", {"invite": key.node})
        for number in range(count - len(self.entries)):
            body = {"text": f"message {number} of a community that talks a lot", "room": f"room-{number % 20}"}
            self._write(self.keys[number % MEMBERS], "chat.message.sent", body)

    def _write(self, key: KeyPair, type_: str, data: dict[str, Any]) -> None:
        now = time.time_ns()
        entry = mint(
            FeedStreams(self.community),
            key,
            after=self._heads[key.node],
            lamport=len(self.entries) + 1,
            type=type_,
            data=data,
            id=ids.default.mint(1, time_ns=now)[0],
            time=now,
        )
        self._heads[key.node] = (entry.seq, entry.link)
        self.entries.append(entry)

    def bodies(self) -> list[bytes]:
        """The events as peers send them."""
        found = []
        for at in range(0, len(self.entries), BATCH):
            events = [wire_format.to_wire(entry, self.community) for entry in self.entries[at : at + BATCH]]
            found.append(msgspec.json.encode(Delivery(community_id=self.community, events=events)))
        return found


@contextmanager
def opened(workshop: Workshop, feeds: Feeds, made: Snapshot | None = None) -> Iterator[EventLog]:
    """A new log, removed afterwards."""
    path = workshop.place("community")
    try:
        with tallystick.open(url("sqlite", path), profile="community") as store:
            yield EventLog(store, feeds.community, base=made.base if made else None)
    finally:
        remove(path)


def take(log: EventLog, bodies: list[bytes]) -> None:
    """Take everything that a peer sends."""
    for body in bodies:
        receipt = log.receive(msgspec.json.decode(body, type=Delivery), peer="peer")
        assert not receipt.rejected, receipt


@measures(RECEIVE)
def receive(workshop: Workshop) -> Iterator[Row]:
    feeds = Feeds(5 * BATCH)
    bodies = feeds.bodies()

    def turn() -> float:
        with opened(workshop, feeds) as log:
            started = time.process_time()
            take(log, bodies)
            return len(feeds.entries) / (time.process_time() - started)

    best = alternate({"ours": turn}, rounds=workshop.scale.rounds)["ours"]
    yield RECEIVE.row(best.highest, note=best.spread)


@measures(RECONCILE, BYTES)
def reconcile(workshop: Workshop) -> Iterator[Row]:
    source = random.Random(1)
    shared: list[Item] = [(number, source.randbytes(32)) for number in range(1, ITEMS + 1)]
    extra: list[Item] = [(source.randrange(ITEMS), source.randbytes(32)) for _ in range(DIFFERENCES)]
    ours, theirs = sorted(shared + extra[:50]), sorted(shared + extra[50:])
    answering = Items.ascending(theirs)
    answering.fingerprint(0, 1)
    sizes: list[int] = []

    def turn() -> float:
        started = time.process_time()
        client = Reconciler(Items.ascending(ours))
        message: bytes | None = client.begin()
        size = 0
        while message is not None:
            answer = Reconciler(answering).answer(message)
            assert answer is not None
            size += len(message) + len(answer)
            message = client.answer(answer)
        assert len(client.have) + len(client.need) == DIFFERENCES
        sizes.append(size)
        return time.process_time() - started

    best = alternate({"ours": turn}, rounds=max(3, workshop.scale.rounds // 3))["ours"]
    yield RECONCILE.row(best.lowest, note=best.spread)
    yield BYTES.row(max(sizes) / 1000)


@measures(JOIN)
def join(workshop: Workshop) -> Iterator[Row]:
    count = 200_000 if workshop.scale.large >= 1_000_000 else 30_000
    feeds = Feeds(count)
    bodies = feeds.bodies()
    with opened(workshop, feeds) as full:
        take(full, bodies)
        engine = engine_over(full)
        made = build_snapshot(full, engine, feeds.keys[0])
        declare_floor(full, made, feeds.keys[0])
        packed = snapshot.dump(made)

        def whole() -> float:
            with opened(workshop, feeds) as log:
                started = time.perf_counter()
                take(log, bodies)
                engine_over(log)
                return count / (time.perf_counter() - started)

        def assisted() -> float:
            started = time.perf_counter()
            unpacked = snapshot.load(packed)
            with opened(workshop, feeds, unpacked) as log:
                joined = engine_over(log)
                snapshot.restore_from_snapshot(unpacked, joined, log, trusted={feeds.community})
                gossip(log, full)
                taken = time.perf_counter() - started
                assert joined.states() == engine.states()
                return count / taken

        best = alternate({"ours": assisted, "whole": whole}, rounds=3)
    note = "" if count == 200_000 else f"--quick: {count:,} events instead of 200,000"
    yield JOIN.row(best["ours"].highest, best["whole"].highest, note=note)
