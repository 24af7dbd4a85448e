"""Rounds between nodes over stores: convergence, floors, snapshots, and what keeps events held."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import errors
from tallystick.community import (
    EventLog,
    KeyPair,
    Snapshot,
    SnapshotStore,
    build_snapshot,
    declare_floor,
    endorse_floors,
    floors,
    propose_floor,
    restore_from_snapshot,
)
from tallystick.community import snapshot as snapshots
from tallystick.testing.community.people import Author, engine_over, gossip, keys

Open = Callable[..., EventLog]


def joined(open_log: Open, founder_log: EventLog, founder: KeyPair, number: int, **options: Any) -> EventLog:
    """A new node that was invited, has joined, and has everything."""
    key = keys(number)
    founder_log.append_local("community.member.invited", {"node": key.node, "role": "admin"}, founder)
    log = open_log(founder.node, node=key.node, **options)
    gossip(log, founder_log)
    log.append_local("community.member.joined", {"invite": key.node}, key)
    gossip(log, founder_log)
    return log


def same(*logs: EventLog) -> bool:
    """Whether nodes agree on the set, the order and every view."""
    states = [engine_over(log).states() for log in logs]
    keys_ = [log.replica.counted.keys for log in logs]
    prints = {log.replica.fingerprint() for log in logs}
    return len(prints) == 1 and all(state == states[0] for state in states) and all(k == keys_[0] for k in keys_)


def test_two_node_sync_converges(open_log: Open, log: EventLog, founder: KeyPair) -> None:
    """COM-09, COM-10: two nodes that drifted apart are equal after one round, and a second one moves nothing."""
    other = joined(open_log, log, founder, 2, file="b.db")
    for number in range(30):
        log.append_local("chat.message.sent", {"n": number}, founder)
        other.append_local("market.post.created", {"post": str(number)}, keys(2))
    first = gossip(log, other)
    assert (first.tally.sent, first.tally.received) == (30, 30)
    assert same(log, other)
    second = gossip(other, log)
    assert (second.tally.sent, second.tally.received, second.tally.differed) == (0, 0, False)


def test_three_way_partition_then_heal(open_log: Open, log: EventLog, founder: KeyPair) -> None:
    """COM-10: three nodes, parted into one and two, write; after healing all three are equal."""
    two = joined(open_log, log, founder, 2)
    three = joined(open_log, log, founder, 3)
    gossip(two, log)
    for number in range(10):
        log.append_local("chat.message.sent", {"n": number}, founder)
        two.append_local("chat.message.sent", {"n": number}, keys(2))
        three.append_local("chat.message.sent", {"n": number}, keys(3))
    gossip(two, three)
    two.append_local("community.member.demoted", {"node": keys(3).node, "role": "member"}, keys(2))
    gossip(log, two)
    gossip(three, log)
    gossip(two, log)
    assert same(log, two, three)


def test_a_lost_event_below_the_head_is_found(open_log: Open, log: EventLog, founder: KeyPair) -> None:
    """COM-09: heads by type cannot show it, the rest of a round does."""
    other = joined(open_log, log, founder, 2)
    log.append_local("chat.message.sent", {"text": "lost"}, founder)
    for _ in range(3):
        other.append_local("chat.message.sent", {"text": "higher"}, keys(2))
    assert other.heads_by_type()["chat.message.sent"] >= log.heads_by_type()["chat.message.sent"]
    gossip(other, log)
    assert same(log, other)


def test_a_fork_is_found_when_two_branches_meet(open_log: Open, log: EventLog, founder: KeyPair) -> None:
    """COM-09: each node saw one branch; reconciliation shows the difference, and the evidence goes round."""
    other, third = joined(open_log, log, founder, 2), joined(open_log, log, founder, 3)
    liar = Author(keys(9), founder.node)
    log.append_local("community.member.invited", {"node": liar.node}, founder)
    liar.lamport = log.head()
    for node in (other, third):
        gossip(node, log)
    hello = liar.write("community.member.joined", {"invite": liar.node})
    for node in (log, other, third):
        node.append_received(hello)
    left, right = liar.entry(data={"text": "left"}), liar.entry(data={"text": "right"})
    log.take_in(log.replica.plan([left]))
    other.take_in(other.replica.plan([right]))
    gossip(log, other)
    gossip(other, log)
    gossip(third, other)
    assert {str(node.replica.forks()) for node in (log, other, third)} == {str({liar.node: 2})}
    assert same(log, other, third)


def test_a_clock_that_rests_on_what_does_not_count_can_be_followed(
    open_log: Open, log: EventLog, founder: KeyPair
) -> None:
    """COM-02, COM-09: an honest event far ahead, because of lamports of an author since cut off, is taken by a node
    that never saw those: it asks for the rungs, and no rung is stored."""
    other = joined(open_log, log, founder, 2)
    liar = Author(keys(9), founder.node)
    log.append_local("community.member.invited", {"node": liar.node}, founder)
    liar.lamport = log.head()
    log.append_received(liar.write("community.member.joined", {"invite": liar.node}))
    gossip(other, log)
    for _ in range(3):
        other.append_received(liar.write(lamport=liar.lamport + 999_000))
    other.append_local("chat.message.sent", {"text": "honest"}, keys(2))
    log.append_local("community.member.revoked", {"node": liar.node}, founder)
    assert other.head() > log.head() + 2_000_000
    gossip(other, log)
    assert not same(log, other), "the honest event is held"
    gossip(log, other)
    assert same(log, other)
    assert log.replica.feeds[liar.node].head.seq == 1


# --- snapshots and floors --------------------------------------------------------------------------------------------


@pytest.fixture
def busy(log: EventLog, founder: KeyPair) -> EventLog:
    """The founder's log with a little history."""
    for number in range(40):
        log.append_local("chat.message.sent", {"n": number}, founder)
        log.append_local("market.post.created", {"post": f"p{number % 7}", "n": number}, founder)
    return log


def test_snapshot_roundtrip(busy: EventLog, founder: KeyPair, tmp_path: Path, open_log: Open) -> None:
    """COM-08: built, written, read and restored it gives the same states, and events it does not cover are applied."""
    engine = engine_over(busy)
    made = build_snapshot(busy, engine, founder, 50)
    assert made.covers_events_up_to == made.lamport == 50
    assert made.heads[founder.node].seq == 50
    store = SnapshotStore(tmp_path / "snapshots", founder.node)
    store.write(made)
    assert store.latest() == made
    assert (tmp_path / "snapshots" / "50.bin").exists()
    fresh = engine_over(busy)
    restore_from_snapshot(made, fresh, busy, trusted={founder.node})
    assert fresh.states() == engine.states()
    assert engine.states()["chat"]["order"]


def test_the_default_cut_lags_behind_the_head(busy: EventLog, founder: KeyPair) -> None:
    """COM-08: 1000 lamports behind the head; in a young community that covers nothing."""
    assert build_snapshot(busy, engine_over(busy), founder).covers_events_up_to == 0


def test_the_default_cut_is_a_thousand_lamports_behind(busy: EventLog, founder: KeyPair, author: Any) -> None:
    """COM-08: `head - SNAPSHOT_LAG_LAMPORT`: an event that lies a thousand behind is covered, the next one is not."""
    member = author(2)
    busy.append_local("community.member.invited", {"node": member.node}, founder)
    member.lamport = 1000 + 40 - 1
    busy.append_received(member.write("community.member.joined", {"invite": member.node}))
    assert busy.head() == 1040
    made = build_snapshot(busy, engine_over(busy), founder)
    assert (made.covers_events_up_to, made.heads[founder.node].seq) == (40, 40)


def test_snapshots_are_listed_and_pruned(busy: EventLog, founder: KeyPair, tmp_path: Path) -> None:
    """COM-08: ascending by lamport, the newest seven stay; a damaged one is passed over."""
    store = SnapshotStore(tmp_path, founder.node)
    engine = engine_over(busy)
    for lamport in range(5, 55, 5):
        store.write(build_snapshot(busy, engine, founder, lamport))
    assert store.list() == list(range(5, 55, 5))
    store.prune()
    assert store.list() == list(range(20, 55, 5))
    (tmp_path / "50.bin").write_bytes(b"torn")
    latest = store.latest()
    assert latest is not None
    assert latest.lamport == 45


@pytest.mark.parametrize("field", ["states", "lamport", "heads", "signer", "signature", "community_id"])
def test_a_changed_snapshot_is_refused(busy: EventLog, founder: KeyPair, field: str) -> None:
    """COM-08: the signature covers every field; an unknown signer is refused before that."""
    made = build_snapshot(busy, engine_over(busy), founder, 30)
    other = {"states": {}, "lamport": 31, "heads": {}, "signer": keys(5).node, "signature": "00" * 64}
    changed = msgspec.structs.replace(made, **{field: other.get(field, "x")})
    with pytest.raises(errors.SnapshotRejected):
        changed.verify(founder.node, {founder.node})
    made.verify(founder.node, {founder.node})


@pytest.mark.parametrize("position", [0, 8, 9, 20, 45, -1])
def test_a_flipped_bit_in_a_file_is_found(busy: EventLog, founder: KeyPair, position: int) -> None:
    """COM-08: damage is refused, whatever byte it hits."""
    data = bytearray(snapshots.dump(build_snapshot(busy, engine_over(busy), founder, 30)))
    data[position] ^= 1
    with pytest.raises(errors.SnapshotRejected):
        snapshots.load(bytes(data))


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """COM-08: what unpacks to more than is allowed is refused with little memory used."""
    import hashlib
    import zlib

    monkeypatch.setattr(snapshots, "SNAPSHOT_BYTES_MAX", 1 << 20)
    body = zlib.compress(bytes(50 << 20))
    with pytest.raises(errors.SnapshotRejected, match="unpacks"):
        snapshots.load(snapshots.MAGIC + hashlib.sha256(body).digest() + body)


def newcomer(busy: EventLog, founder: KeyPair, open_log: Open, lamport: int) -> tuple[EventLog, Snapshot]:
    """A node that begins at a snapshot which the founder has made everybody's floor."""
    made = build_snapshot(busy, engine_over(busy), founder, lamport)
    declare_floor(busy, made, founder)
    made.verify(founder.node, {founder.node})
    return open_log(founder.node, node=keys(6).node, base=made.base, file="newcomer.db"), made


def states_of(log: EventLog, made: Snapshot) -> dict[str, Any]:
    """The states of a node that began at a snapshot."""
    engine = engine_over(log)
    restore_from_snapshot(made, engine, log, trusted={made.signer})
    return engine.states()


def test_snapshot_assisted_join(busy: EventLog, founder: KeyPair, open_log: Open) -> None:
    """COM-10: a newcomer takes a snapshot and the tail, fetches nothing below it, and ends equal to the others."""
    before = engine_over(busy)
    log, made = newcomer(busy, founder, open_log, 60)
    round_ = gossip(log, busy)
    assert round_.tally.received == busy.replica.feeds[founder.node].head.seq - 60
    assert states_of(log, made) == before.states()
    assert log.replica.fingerprint() == busy.replica.fingerprint()
    assert log.replica.base.floor == busy.replica.base.floor != b""


def test_a_pruned_and_a_full_node_sync_twice(busy: EventLog, founder: KeyPair, open_log: Open) -> None:
    """COM-12: below the floor nothing is compared, so the second round transfers nothing in either direction."""
    log, _ = newcomer(busy, founder, open_log, 60)
    gossip(busy, log)
    for one, other in ((busy, log), (log, busy)):
        round_ = gossip(one, other)
        assert (round_.tally.sent, round_.tally.received, round_.tally.differed) == (0, 0, False)


def test_a_newcomer_restarts_from_its_own_disk(busy: EventLog, founder: KeyPair, open_log: Open) -> None:
    """COM-12: the tail of a feed that begins at a snapshot is kept, though no stream can hold it."""
    log, made = newcomer(busy, founder, open_log, 60)
    gossip(log, busy)
    again = open_log(founder.node, node=keys(6).node, base=made.base, file="newcomer.db")
    assert again.replica.fingerprint() == busy.replica.fingerprint()
    assert again.replica.clock.current >= busy.head()


@pytest.mark.parametrize("count", [1, 2])
def test_a_full_node_restarts_above_its_floors(open_log: Open, founder: KeyPair, count: int) -> None:
    """COM-07, COM-08: views that are registered after floors were reached still begin with what those cover."""
    log = open_log(founder.node, node=founder.node, file="full.db")
    log.append_local("community.created", {}, founder)
    engine = engine_over(log)
    for round_ in range(count):
        for number in range(20):
            log.append_local("chat.message.sent", {"n": number}, founder)
            log.append_local("market.post.created", {"post": f"{round_}-{number}"}, founder)
        made = build_snapshot(log, engine, founder, log.head() - 5)
        declare_floor(log, made, founder)
    again = open_log(founder.node, node=founder.node, file="full.db")
    assert again.replica.base.floor == made.base.floor
    assert engine_over(again).states() == engine.states()
    assert states_of(again, made) == engine.states()
    assert len(engine.states()["chat"]["order"]) == 20 * count


def test_an_event_older_than_the_floor_is_folded_behind_it(busy: EventLog, founder: KeyPair, open_log: Open) -> None:
    """COM-07, COM-08: a late event with an old lamport gives full and pruned nodes the same state."""
    full_engine = engine_over(busy)
    late = Author(keys(7), founder.node)
    busy.append_local("community.member.invited", {"node": late.node}, founder)
    late.lamport = busy.head()
    hello = late.write("community.member.joined", {"invite": late.node})
    old = late.write("chat.message.sent", {"text": "offline for long"})
    for number in range(30):
        busy.append_local("chat.message.sent", {"n": 100 + number}, founder)
    log, made = newcomer(busy, founder, open_log, busy.head())
    gossip(log, busy)
    for event in (hello, old):
        busy.append_received(event)
    gossip(log, busy)
    assert log.replica.fingerprint() == busy.replica.fingerprint()
    assert states_of(log, made) == full_engine.states()
    assert full_engine.states()["chat"]["order"][-1] == f"{late.node}#2"


def test_only_the_founder_declares_a_floor(open_log: Open, log: EventLog, founder: KeyPair) -> None:
    """COM-12: a floor of somebody else is an ordinary event that settles nothing."""
    other = joined(open_log, log, founder, 2)
    made = build_snapshot(other, engine_over(other), keys(2), 2)
    with pytest.raises(errors.SnapshotRejected):
        declare_floor(other, made, keys(2))
    other.append_local("community.policy.updated", floors.payload_of(made.base, b""), keys(2))
    gossip(other, log)
    assert log.replica.base.floor == other.replica.base.floor == b""


def test_an_admin_proposes_a_floor_and_the_founder_endorses_it(
    busy: EventLog, founder: KeyPair, member: Callable[..., Author], open_log: Open
) -> None:
    """COM-12: a proposal settles nothing until the founder's own replay confirms it; then it is everybody's floor.
    Of a member's proposal, a false one, and one for a floor that was passed, nothing becomes."""
    admin, plain = member(2, "admin"), member(3)
    other = open_log(founder.node, node=admin.node)
    gossip(other, busy)
    made = build_snapshot(other, engine_over(other), admin.keys, 50)
    false = msgspec.structs.replace(made, nodes=(plain.node,))
    with pytest.raises(errors.SnapshotRejected, match="admin"):
        propose_floor(other, made, plain.keys)
    propose_floor(other, false, admin.keys)
    propose_floor(other, made, admin.keys)
    gossip(other, busy)
    states = engine_over(busy).states()
    assert busy.replica.base.floor == other.replica.base.floor == b""
    assert len(endorse_floors(busy, founder)) == 1
    assert busy.replica.base.floor == made.base.floor
    assert endorse_floors(busy, founder) == []
    gossip(other, busy)
    assert other.replica.base.floor == made.base.floor
    assert other.replica.fingerprint() == busy.replica.fingerprint()
    assert engine_over(other).states() == states
    with pytest.raises(errors.SnapshotRejected, match="founder"):
        endorse_floors(other, admin.keys)


def test_what_a_member_proposes_is_not_endorsed(
    busy: EventLog, founder: KeyPair, member: Callable[..., Author]
) -> None:
    """COM-12: rank is judged at the event: a proposal from before a demotion's cut counts, one of a member does not."""
    plain = member(3)
    made = build_snapshot(busy, engine_over(busy), founder, 50)
    plain.lamport = busy.head()
    busy.append_received(plain.write("community.policy.updated", floors.payload_of(made.base, made.after)))
    assert endorse_floors(busy, founder) == []
