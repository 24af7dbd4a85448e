"""The log of a community over a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pydantic
import pytest

import tallystick
from tallystick import Catalog, NewEvent, errors, match
from tallystick.community import EVENT_TYPES, Event, EventLog, KeyPair
from tallystick.community.wire_format import to_wire
from tallystick.store.verify import verify
from tallystick.testing.community.people import Author, keys

Member = Callable[..., Author]


def code_of(log: EventLog, event: Event) -> str | None:
    """The code with which a log answers an event; None if it takes it."""
    try:
        log.append_received(event)
    except errors.EventLogError as refusal:
        return str(refusal.code)
    return None


def test_append_local_persists_and_signs(open_log: Callable[..., EventLog], founder: KeyPair) -> None:
    """COM-01, COM-03: a local event has its nine fields, is signed, and is there after a restart."""
    log = open_log(founder.node, node=founder.node, file="a.db")
    event = log.append_local("community.created", {"name": "x"}, founder)
    assert (event.schema_version, event.lamport, event.seq) == (1, 1, 1)
    assert (event.community_id, event.author) == (founder.node, founder.node)
    assert event.wall_clock.endswith("Z")
    again = open_log(founder.node, node=founder.node, file="a.db")
    assert list(again.replay()) == [event]
    assert again.get(event.event_id) == event
    other = open_log(founder.node)
    assert other.append_received(event) is True


def test_append_received_rejects_bad_signature(log: EventLog, member: Member) -> None:
    """COM-03, COM-04: invalid_signature, and nothing is kept."""
    event = member(2).write()
    before = log.heads()
    for field, value in [("data", {"text": "y"}), ("signature", "00" * 64), ("event_type", "chat.message.read")]:
        spoilt = msgspec.structs.replace(event, **{field: value})
        assert code_of(log, spoilt) == "invalid_signature"
    assert log.heads() == before


def test_duplicate_event_id_is_noop(log: EventLog, member: Member) -> None:
    """COM-03: the same event again is False; another author's event with the same id is another event."""
    one, other = member(2), member(3)
    event = one.write()
    assert log.append_received(event) is True
    assert log.append_received(event) is False
    copied = other.write(id=one.entry(id=bytes.fromhex("00" * 16)).id)
    assert log.append_received(copied) is True
    assert log.append_received(one.write(id=bytes.fromhex("00" * 16))) is True


@pytest.mark.parametrize("file", [None, "a.db"])
def test_an_id_that_others_copied_does_not_keep_an_event_out(
    open_log: Callable[..., EventLog], founder: KeyPair, file: str | None
) -> None:
    """COM-03: an engine has an id once, yet both events are kept, count, and survive a restart."""
    log = open_log(founder.node, node=founder.node, file=file)
    first = log.append_local("community.created", {}, founder)
    thief = Author(keys(2), founder.node)
    log.append_local("community.member.invited", {"node": thief.node}, founder)
    thief.lamport = log.head()
    stolen = to_wire(thief.entry("community.member.joined", {"invite": thief.node}), founder.node)
    assert log.append_received(stolen)
    thief.head, thief.lamport = (1, log.replica.feeds[thief.node].head.link), stolen.lamport
    entry = log.replica.feeds[founder.node].entries[0]
    assert first.event_id == to_wire(entry, founder.node).event_id
    assert log.append_received(thief.write(id=entry.id)) is True
    assert log.append_received(thief.write()) is True
    if file is not None:
        again = open_log(founder.node, node=founder.node, file=file)
        assert again.replica.fingerprint() == log.replica.fingerprint()
        assert again.get(first.event_id) == first


def test_a_missing_predecessor_holds_an_event(log: EventLog, member: Member) -> None:
    """COM-04: out_of_order is held, and taken when what is missing arrives."""
    author = member(2)
    first, second = author.write(), author.write()
    assert code_of(log, second) == "out_of_order"
    assert log.append_received(first) is True
    assert log.append_received(second) is False
    assert log.replica.feeds[author.node].head.seq == 3


def test_a_lamport_far_ahead_is_held(log: EventLog, member: Member) -> None:
    """COM-04: an event that would poison the clock is out_of_order, held and not refused for good."""
    author = member(2)
    far = author.write(lamport=2_000_000)
    clock = log.replica.clock.current
    assert code_of(log, far) == "out_of_order"
    assert log.replica.clock.current == clock
    step = member(3).write(lamport=1_000_000)
    assert log.append_received(step) is True
    assert log.append_received(far) is False, "it was taken when the step before it came"


def test_an_unknown_author_is_held_until_invited(
    log: EventLog, author: Callable[[int], Author], founder: KeyPair
) -> None:
    """COM-04, COM-05: unknown_author, then counted as soon as the invitation is known."""
    stranger = author(9)
    stranger.lamport = 50
    joined = stranger.write("community.member.joined", {"invite": stranger.node})
    assert code_of(log, joined) == "unknown_author"
    log.append_local("community.member.invited", {"node": stranger.node}, founder)
    assert joined.event_id in {event.event_id for event in log.replay()}


def test_a_revoked_author_is_kept_and_does_not_count(log: EventLog, member: Member, founder: KeyPair) -> None:
    """COM-04, COM-05: revoked_author for what lies behind the cut, be its lamport never so low."""
    author = member(2)
    log.append_received(author.write())
    log.append_local("community.member.revoked", {"node": author.node}, founder)
    backdated = author.write(lamport=author.lamport + 1)
    assert backdated.lamport < log.head()
    assert code_of(log, backdated) == "revoked_author"
    assert backdated.event_id not in {event.event_id for event in log.replay()}
    assert log.replica.feeds[author.node].head.seq == 3, "it is kept"


@pytest.mark.parametrize(("type_", "version"), [("bank.account.emptied", 1), ("chat.message.sent", 2)])
def test_an_unknown_schema_is_kept_and_does_not_count(log: EventLog, member: Member, type_: str, version: int) -> None:
    """COM-04, COM-06: schema_unknown leaves no hole: the next event of the feed counts."""
    author = member(2)
    assert code_of(log, author.write(type_, version=version)) == "schema_unknown"
    assert log.append_received(author.write()) is True


def test_a_damaged_store_is_db_corrupt(open_log: Callable[..., EventLog], founder: KeyPair, tmp_path: Path) -> None:
    """COM-04: what fails its check at opening is not served."""
    import sqlite3

    log = open_log(founder.node, node=founder.node, file="a.db")
    log.append_local("community.created", {"name": "x"}, founder)
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.executescript("DROP TRIGGER events_are_not_changed")
    connection.execute("UPDATE events SET time = time + 1")
    connection.commit()
    connection.close()
    with pytest.raises(errors.EventLogError) as refusal:
        open_log(founder.node, node=founder.node, file="a.db")
    assert refusal.value.code == "db_corrupt"


def test_the_types_are_a_closed_set(log: EventLog, founder: KeyPair, member: Member) -> None:
    """COM-06: 19 types; the two reserved ones are refused here and taken from peers."""
    assert len(EVENT_TYPES) == 19
    for type_ in ("federation.peer.added", "federation.peer.removed", "bank.account.emptied"):
        with pytest.raises(errors.EventLogError) as refusal:
            log.append_local(type_, {}, founder)
        assert refusal.value.code == "schema_unknown"
    assert log.append_received(member(2).write("federation.peer.added", {"peer": "x"})) is True


def test_who_is_no_member_cannot_write(log: EventLog) -> None:
    """COM-05: a local event that would not count is refused before it is signed into the log."""
    with pytest.raises(errors.EventLogError) as refusal:
        log.append_local("chat.message.sent", {"text": "hi"}, keys(9))
    assert refusal.value.code == "unknown_author"


def test_a_secret_is_refused_here_and_taken_from_peers(log: EventLog, founder: KeyPair, member: Member) -> None:
    """The guard looks at local events; refusing a peer's would part the nodes."""
    secret = {"text": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA"}
    with pytest.raises(errors.SecretFound):
        log.append_local("chat.message.sent", secret, founder)
    assert log.append_received(member(2).write(data=secret)) is True


def test_replay_is_in_the_merged_order(log: EventLog, member: Member) -> None:
    """COM-03: lamport, then id; filtered by type, from a lamport on, up to a limit."""
    one, other = member(2), member(3)
    for author in (other, one):
        author.lamport = 100
    log.append_received(other.write())
    log.append_received(one.write())
    order = [(event.lamport, event.event_id) for event in log.replay()]
    assert order == sorted(order)
    assert [event.lamport for event in log.replay(since_lamport=101)] == [101, 101]
    assert len(list(log.replay(event_types=["community.member.joined"], limit=1))) == 1
    assert log.heads_by_type()["chat.message.sent"] == log.head() == 101


def test_two_processes_share_a_store(open_log: Callable[..., EventLog], founder: KeyPair) -> None:
    """COM-03: two logs over one file see each other's events, and neither forks the author's feed."""
    one = open_log(founder.node, node=founder.node, file="a.db")
    other = open_log(founder.node, node=founder.node, file="a.db")
    one.append_local("community.created", {}, founder)
    for number in range(5):
        other.append_local("chat.message.sent", {"n": number}, founder)
        one.append_local("chat.message.sent", {"n": -number}, founder)
    one.refresh()
    other.refresh()
    assert one.replica.fingerprint() == other.replica.fingerprint()
    assert one.replica.feeds[founder.node].head.seq == 11
    assert not one.replica.forks()


def test_an_append_demands_the_link_before_it(tmp_path: Path) -> None:
    """A commit whose stream ends with another link is a conflict, though the seq fits."""
    from tallystick.event import chain
    from tallystick.store.commit import Transaction, Write

    with tallystick.open(f"sqlite:{tmp_path / 'a.db'}") as store:
        store.append("order/1", tallystick.NewEvent("order.placed", {}))
        draft = ("order.paid", 1, bytes(16), 0, b"{}", b"{}", chain.checksum(b"{}"), None)
        outcome = store.log.commit([Transaction([Write("order/1", [draft], 1, after_link=bytes(32))])])[0]
        assert isinstance(outcome, errors.Conflict)
        head = store.stream_head("order/1")
        assert head is not None
        outcome = store.log.commit([Transaction([Write("order/1", [draft], 1, after_link=head.link)])])[0]
        assert isinstance(outcome, list)


def test_a_received_feed_has_the_same_links_in_the_store(
    log: EventLog, open_log: Callable[..., EventLog], founder: KeyPair, tmp_path: Path
) -> None:
    """COM-03: seq, link and signature come out the same on every node, and `tally verify` agrees."""
    copy = open_log(founder.node, file="copy.db")
    for event in log.replay():
        copy.append_received(event)
    with tallystick.open(f"sqlite:{tmp_path / 'copy.db'}") as store:
        links = [event.link for event in store.events()]
        assert links == [entry.link for entry in log.replica.feeds[founder.node].entries]
        assert verify(store.log).ok


def test_subscribers_get_what_counts(log: EventLog, member: Member) -> None:
    """COM-11: an async iterator yields new events as they arrive, from this thread and others, filtered by type."""
    author = member(2)

    async def listen() -> list[str]:
        found: list[str] = []
        subscription = log.subscribe(["chat.message.sent"])
        waiting = asyncio.ensure_future(anext(subscription))
        await asyncio.sleep(0)
        log.append_received(author.write(data={"text": "one"}))
        found.append((await asyncio.wait_for(waiting, 5)).data["text"])
        await asyncio.to_thread(log.append_received, author.write("node.manifest.updated", {}))
        await asyncio.to_thread(log.append_received, author.write(data={"text": "two"}))
        found.append((await asyncio.wait_for(anext(subscription), 5)).data["text"])
        await subscription.aclose()
        return found

    assert asyncio.run(listen()) == ["one", "two"]


def test_local_events_are_handed_to_peers(log: EventLog, founder: KeyPair) -> None:
    """COM-11: whoever fans out to peers is told of every local event, after it is kept."""
    told: list[Event] = []
    log.on_append.append(told.append)
    event = log.append_local("chat.message.sent", {"text": "hi"}, founder)
    assert told == [event]
    assert log.get(event.event_id) == event


def test_the_names_of_the_specification_can_be_imported() -> None:
    """COM-01, COM-03: what the first design calls by a name has it here too."""
    from tallystick import community

    names = (
        "Event EventType LamportClock EventLog EventLogError MaterialisedView ReplayEngine Snapshot SnapshotStore "
        "build_snapshot restore_from_snapshot HeadsReport SyncClient SyncServer SyncResult"
    )
    assert not [name for name in names.split() if not hasattr(community, name)]


def test_a_store_of_another_profile_is_refused(founder: KeyPair) -> None:
    """A community needs the profile that requires lamport, author and alg."""
    with tallystick.open("memory:") as store, pytest.raises(errors.InvalidValue):
        EventLog(store, founder.node)


def test_a_community_refuses_conditions() -> None:
    """TAG-02: its events have the order of one node, so no append can depend on others. Nothing is written."""
    catalog = Catalog()
    catalog.register("chat.said", version=1, model=Said)
    meta = {"lamport": 1, "author": "a", "alg": "x"}
    said = NewEvent("chat.said", {"text": "hi"}, meta=meta, signature=bytes(64))
    with tallystick.open("memory:", profile="community", catalog=catalog) as store:
        with pytest.raises(errors.Forbidden, match="profile 'community'"):
            store.consult(match(tags=["a:1"]))
        with pytest.raises(errors.Forbidden, match="profile 'community'"):
            store.append("feed/a", said, unless=match(tags=["a:1"]))
        assert store.head() == 0
        assert store.append("feed/a", said).seq == 1


class Said(pydantic.BaseModel):
    """A message."""

    text: str
