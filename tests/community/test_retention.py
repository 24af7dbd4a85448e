"""Retention: what a floor covers goes from the disk, and nothing else changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import Store, errors, state
from tallystick.community import (
    EventLog,
    KeyPair,
    ReplayEngine,
    SnapshotStore,
    build_snapshot,
    declare_floor,
    erasure,
    retention,
    signatures,
)
from tallystick.community.messages import Delivery, Fetch
from tallystick.community.retention import DAY_NS, PrunableFloor
from tallystick.testing.clock import ManualClock
from tallystick.testing.community.people import Author, engine_over, gossip, keys

START_NS = 1_750_000_000_000_000_000


class House:
    """A node on disk, under a clock that is turned by hand."""

    def __init__(self, place: Path, founder: KeyPair, key: KeyPair) -> None:
        self.clock = ManualClock(START_NS)
        self.place, self.founder, self.keys = place, founder, key
        self.files = SnapshotStore(place / "snapshots", founder.node)
        self.store: Store = tallystick.open(f"sqlite:{place / 'log.db'}", profile="community", clock=self.clock)
        self.open()

    def open(self, base: Any = None, states: Any = None) -> None:
        """Open the log, from the beginning or from a snapshot."""
        self.log = EventLog(self.store, self.founder.node, node=self.keys.node, base=base)
        self.engine: ReplayEngine = engine_over(self.log)
        if states is not None:
            self.engine.restart(states, floor=base.floor)

    def settle(self) -> None:
        """Let the founder declare everything up to now settled."""
        made = build_snapshot(self.log, self.engine, self.founder, self.log.head())
        declare_floor(self.log, made, self.founder)

    def due(self, **options: Any) -> PrunableFloor | None:
        """What may go now."""
        return retention.due(self.log, self.engine, self.files, self.keys, **options)

    def pass_days(self, days: float) -> None:
        """Let time pass, for the clock and for the files."""
        self.clock.advance(ns=int(days * DAY_NS))
        for lamport in self.files.list():
            os.utime(self.place / "snapshots" / f"{lamport}.bin", ns=(START_NS, START_NS))

    def positions(self) -> list[int]:
        """Where the store still has events of the community."""
        events = self.store.log.read(limit=10_000, over_pruned=True).events
        return [event.position for event in events if event.stream.startswith("community.")]


@pytest.fixture
def house(tmp_path: Path, founder: KeyPair) -> Iterator[House]:
    """The founder's node with some history of two authors, settled, and a tail."""
    made = House(tmp_path, founder, founder)
    made.log.append_local("community.created", {"name": "test"}, founder)
    made.log.append_local("community.member.invited", {"node": keys(2).node}, founder)
    author = Author(keys(2), founder.node)
    author.lamport = made.log.head()
    made.log.append_received(author.write("community.member.joined", {"invite": author.node}))
    for number in range(20):
        made.log.append_local("chat.message.sent", {"n": number}, founder)
        made.log.append_received(author.write("market.post.created", {"post": str(number)}))
    made.settle()
    made.log.append_local("chat.message.sent", {"text": "tail"}, founder)
    yield made
    made.store.close()


def facts(house: House) -> tuple[Any, ...]:
    """Everything that must not change."""
    replica = house.log.replica
    return replica.fingerprint(), replica.base.floor, house.engine.states(), replica.tips(), replica.counted.keys


def test_covered_events_go_after_thirty_days(house: House, open_log: Any, founder: KeyPair) -> None:
    """COM-12, settled 26: not before the snapshot and the recording are 30 days old; then the disk has the tail alone,
    and a restart from the snapshot has the same counted set, fingerprint and states, and goes on writing."""
    before = facts(house)
    assert house.due() is None, "the first look writes the snapshot"
    assert house.files.list() == [house.log.replica.base.lamport]
    house.pass_days(29.9)
    assert house.due() is None
    house.pass_days(0.2)
    due = house.due()
    assert due is not None
    done = retention.prune(house.log, due)
    assert sum(each.count for each in done) == 43
    assert len(house.positions()) == 2
    assert facts(house) == before
    house.open(due.snapshot.base, due.snapshot.states)
    assert facts(house) == before
    said = house.log.append_local("chat.message.sent", {"text": "after"}, founder)
    assert said.seq == 25
    author = Author(keys(2), founder.node)
    head = house.log.replica.feed(author.node).head
    author.head, author.lamport = (head.seq, head.link), head.lamport
    assert house.log.append_received(author.write(data={"text": "still here"}))
    stream = house.log.replica.streams.feed(author.node)
    assert house.store.stream_head(stream).seq == 22, "a pruned feed goes on in its stream"
    after = facts(house)
    house.open(due.snapshot.base, due.snapshot.states)
    assert facts(house) == after
    assert retention.prune(house.log, due) == [], "a second time there is nothing left to do"


def test_a_pruned_and_a_full_disk_sync_twice(house: House, open_log: Any, founder: KeyPair) -> None:
    """COM-12: a node with everything and one that has pruned agree, and the second round transfers nothing."""
    full = open_log(founder.node, node=keys(7).node)
    gossip(full, house.log)
    house.due()
    house.pass_days(31)
    due = house.due()
    assert due is not None
    retention.prune(house.log, due)
    house.open(due.snapshot.base, due.snapshot.states)
    house.log.append_local("chat.message.sent", {"text": "new"}, founder)
    assert gossip(full, house.log).tally.received == 1
    for one, other in ((full, house.log), (house.log, full)):
        again = gossip(one, other).tally
        assert (again.sent, again.received, again.differed) == (0, 0, False)
    assert full.replica.fingerprint() == house.log.replica.fingerprint()
    assert engine_over(full).states() == house.engine.states()


def test_what_was_recorded_late_stays(house: House, founder: KeyPair) -> None:
    """Settled 26: an event that this store recorded a moment ago stays, however old it says it is."""
    house.due()
    house.pass_days(31)
    assert house.due() is not None
    house.log.append_local("chat.message.sent", {"text": "young"}, founder)
    house.settle()
    assert house.due() is None
    for lamport in house.files.list():
        os.utime(house.place / "snapshots" / f"{lamport}.bin", ns=(START_NS, START_NS))
    due = house.due()
    assert due is not None
    retention.prune(house.log, due)
    kept = house.store.log.read_stream(house.log.replica.streams.feed(founder.node), after=24, limit=1000)
    assert [event.seq for event in kept] == [25, 26]


def test_peers_that_lag_hold_the_events_back(house: House, open_log: Any, founder: KeyPair) -> None:
    """COM-12: what a listed peer may still need stays until it has shown the floor, or for 90 days."""
    peer = open_log(founder.node, node=keys(7).node)
    house.due()
    house.pass_days(31)
    assert house.due(peers=["peer"]) is None
    gossip(peer, house.log)
    gossip(house.log, peer)
    assert house.due(peers=["peer"]) is not None
    house.log.floors_seen.clear()
    house.pass_days(60)
    assert house.due(peers=["peer"]) is not None


def test_a_reader_that_is_behind_keeps_its_events(house: House) -> None:
    """COM-12: pruning is refused while a consumer of this store has not read what would go."""
    house.store.save_checkpoint("slow", 5)
    house.due()
    house.pass_days(31)
    due = house.due()
    assert due is not None
    done = retention.prune(house.log, due)
    assert [each.count for each in done] == [0, 0]
    assert "slow" in done[0].why_not
    assert len(house.positions()) == 45


def test_a_pruned_log_is_not_opened_from_nothing(house: House) -> None:
    """Settled 17: without the snapshot, or with one that covers less, what is missing is named."""
    early = build_snapshot(house.log, house.engine, house.founder, house.log.head())
    house.due()
    house.pass_days(31)
    due = house.due()
    assert due is not None
    retention.prune(house.log, due)
    with pytest.raises(errors.HistoryPruned):
        house.open()
    short = {author: type(head)(head.seq - 1, b"x" * 32, 1) for author, head in early.heads.items()}
    short[house.founder.node] = type(early.heads[house.founder.node])(3, b"x" * 32, 3)
    with pytest.raises(errors.HistoryPruned):
        house.open(type(early.base)(short, early.acts, early.nodes, 3, b"f"))


def test_the_snapshot_at_the_floor_survives(house: House) -> None:
    """COM-08, COM-12: keeping the newest seven never takes away the one that a log begins with."""
    house.due()
    (base,) = house.files.list()
    for _ in range(8):
        house.log.append_local("chat.message.sent", {"n": 1}, house.founder)
        house.files.write(build_snapshot(house.log, house.engine, house.founder, house.log.head()))
    house.files.prune(keep={base})
    assert len(house.files.list()) == 8
    assert base in house.files.list()


def test_evidence_of_a_fork_is_never_pruned(house: House, founder: KeyPair) -> None:
    """COM-12: two events that prove a fork stay, so that nobody begins to count behind it."""
    twin = Author(keys(2), founder.node)
    feed = house.log.replica.feeds[twin.node]
    twin.head, twin.lamport = (3, feed.entries[2].link), feed.entries[2].lamport
    house.log.receive(Delivery(community_id=founder.node, events=[twin.write(data={"text": "two"})]), peer="p")
    assert house.log.replica.forks() == {twin.node: 4}
    house.due()
    house.pass_days(31)
    due = house.due()
    assert due is not None
    retention.prune(house.log, due)
    house.open(due.snapshot.base, due.snapshot.states)
    assert house.log.replica.forks() == {twin.node: 4}


def test_erased_content_leaves_everything_else(house: House, founder: KeyPair, open_log: Any) -> None:
    """COM-12, settled 25: the data is gone from disk, view and snapshots; links, order and fingerprint are as before,
    and what cannot be verified any more is not passed on."""
    said = house.log.append_local("chat.message.sent", {"text": "forget me"}, founder)
    house.files.write(build_snapshot(house.log, house.engine, founder, house.log.head()))
    before, counted = house.log.replica.fingerprint(), list(house.log.replica.counted.keys)
    erasure.erase(house.log, house.engine, house.files, founder.node, said.seq, reason="asked")
    assert house.files.list() == []
    for _ in range(2):
        assert "forget me" not in str(house.engine.states())
        assert house.engine.states()["chat"]["messages"][f"{founder.node}#{said.seq}"]["data"] == {}
        assert (house.log.replica.fingerprint(), house.log.replica.counted.keys) == (before, counted)
        house.open()
    assert b"forget me" not in b"".join(path.read_bytes() for path in house.place.rglob("*") if path.is_file())
    asked = Fetch(community_id=founder.node, ranges={founder.node: (said.seq - 1, said.seq)})
    assert house.log.fetch(asked).events == []
    other = open_log(founder.node, node=keys(7).node)
    gossip(other, house.log)
    gossip(house.log, other)
    assert other.replica.feeds[founder.node].head.seq == said.seq - 1
    assert list(signatures.problems(house.store)) == []


def test_an_erasure_that_was_cut_short_can_be_repeated(house: House, founder: KeyPair) -> None:
    """COM-12: whenever the payload is gone, no snapshot holds it any more, damaged ones included."""
    said = house.log.append_local("chat.message.sent", {"text": "forget me"}, founder)
    snapshot = build_snapshot(house.log, house.engine, founder, house.log.head())
    house.files.write(snapshot)
    stubborn = house.place / "stubborn"
    stubborn.mkdir()
    (stubborn / f"{snapshot.lamport}.bin").mkdir()  # stands where a file is expected, and cannot be read or removed
    with pytest.raises(OSError):
        erasure.erase(
            house.log, house.engine, SnapshotStore(stubborn, founder.node), founder.node, said.seq, reason="asked"
        )
    damaged = house.place / "snapshots" / f"{snapshot.lamport}.bin"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    erasure.erase(house.log, house.engine, house.files, founder.node, said.seq, reason="asked")
    assert house.files.list() == []
    assert "forget me" not in str(house.engine.states())


@pytest.mark.parametrize("seq", [1, 2, 3, 99])
def test_acts_and_settled_events_are_not_erased(house: House, founder: KeyPair, seq: int) -> None:
    """COM-05, COM-12: acts, what a floor covers, and what is not there are refused by name."""
    with pytest.raises(errors.EraseRefused):
        erasure.erase(house.log, house.engine, house.files, founder.node, seq, reason="asked")
    state.erase(house.store, house.log.replica.streams.feed(founder.node), 2, reason="behind our back")
    with pytest.raises(errors.EventLogError, match="act"):
        house.open()
