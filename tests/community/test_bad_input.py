"""The twenty bad inputs of sync: each is refused or held by name, and changes nothing that counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tallystick import errors
from tallystick.community import Event, EventLog, KeyPair, addresses, wire_format
from tallystick.community.held import HELD_EVENTS_MAX
from tallystick.community.items import Items
from tallystick.community.messages import Delivery, Fetch, Reconcile
from tallystick.community.negentropy import Reconciler
from tallystick.testing.community.people import Author, keys

Member = Callable[..., Author]
ORDER_L = (1 << 252) + 27742317777372353535851937790883648493


def changed(event: Event, **fields: Any) -> Event:
    """The event with other fields; lamport also where meta repeats it."""
    if "lamport" in fields:
        fields["meta"] = event.meta | {"lamport": fields["lamport"]}
    if "author" in fields:
        fields["meta"] = event.meta | {"author": fields["author"]}
    return msgspec.structs.replace(event, **fields)


def codes(log: EventLog, *events: Event) -> list[str]:
    """The codes that a delivery is answered with."""
    receipt = log.receive(Delivery(community_id=log.community, events=list(events)), peer="peer")
    return [each.reason for each in receipt.rejected_reasons]


@pytest.fixture
def quiet(log: EventLog, member: Member) -> tuple[EventLog, Author, Callable[[], bool]]:
    """A log with one member, and whether what counts is as it was."""
    author = member(2)
    before = log.replica.fingerprint()
    return log, author, lambda: log.replica.fingerprint() == before


def test_01_lamport_at_the_end_of_the_numbers(quiet: Any) -> None:
    """COM-04: held as out_of_order; the clock does not move."""
    log, author, same = quiet
    clock = log.replica.clock.current
    assert codes(log, author.write(lamport=(1 << 63) - 1)) == ["out_of_order"]
    assert same()
    assert log.replica.clock.current == clock


@pytest.mark.parametrize("lamport", [0, -1, 1 << 63])
def test_02_lamport_out_of_range(quiet: Any, lamport: int) -> None:
    """COM-04: malformed, so not what was signed."""
    log, author, same = quiet
    assert codes(log, changed(author.write(), lamport=lamport)) == ["invalid_signature"]
    assert same()


def test_02_lamport_is_a_float(quiet: Any) -> None:
    """COM-01: a number with a point is no lamport."""
    _, author, _ = quiet
    text = wire_format.dump(author.write()).replace(b'"lamport":', b'"lamport":0.5e1,"x":')
    with pytest.raises(errors.EventLogError):
        wire_format.load(text)


def test_03_seq_gap(quiet: Any) -> None:
    """COM-04: held until the gap is filled."""
    log, author, same = quiet
    author.write()
    assert codes(log, author.write()) == ["out_of_order"]
    assert same()


def test_04_seq_reused_with_another_link(quiet: Any) -> None:
    """COM-04, COM-05: evidence of a fork; neither event counts."""
    log, author, same = quiet
    left, right = (wire_format.to_wire(author.entry(data={"n": n}), log.community) for n in (1, 2))
    assert set(codes(log, left, right)) == {"revoked_author"}
    assert log.replica.forks() == {author.node: 2}
    assert same()


def test_05_a_batch_replayed_a_thousand_times(quiet: Any) -> None:
    """COM-09: idempotent: the store does not grow."""
    log, author, _ = quiet
    batch = [author.write() for _ in range(3)]
    assert codes(log, *batch) == []
    position = log.disk.head()
    for _ in range(1000):
        log.receive(Delivery(community_id=log.community, events=batch), peer="peer")
    assert log.disk.head() == position


def test_06_a_flipped_bit_in_a_signature(quiet: Any) -> None:
    """COM-04: invalid_signature."""
    log, author, same = quiet
    event = author.write()
    flipped = f"{int(event.signature[:2], 16) ^ 1:02x}" + event.signature[2:]
    assert codes(log, changed(event, signature=flipped)) == ["invalid_signature"]
    assert same()


def test_07_a_malleable_signature(quiet: Any) -> None:
    """COM-04: S + L is refused."""
    log, author, same = quiet
    event = author.write()
    raw = bytes.fromhex(event.signature)
    scalar = int.from_bytes(raw[32:], "little") + ORDER_L
    spoilt = (raw[:32] + scalar.to_bytes(32, "little")).hex()
    assert codes(log, changed(event, signature=spoilt)) == ["invalid_signature"]
    assert same()


@pytest.mark.parametrize("key", ["00" * 32, "01" + "00" * 31])
def test_08_a_small_order_key(quiet: Any, key: str) -> None:
    """COM-04: a key under which anything validates elsewhere."""
    log, author, same = quiet
    event = changed(author.write(), author=f"ed25519:{key}", signature="01" + "00" * 63)
    assert codes(log, event) == ["invalid_signature"]
    assert same()


def test_09_signed_for_another_community(quiet: Any) -> None:
    """COM-04: the stream's name is signed, so an event is good for one community."""
    log, author, same = quiet
    other = Author(author.keys, keys(5).node).write()
    assert codes(log, other, changed(other, community_id=log.community)) == ["invalid_signature"] * 2
    assert same()


def test_10_a_revoked_author(quiet: Any, founder: KeyPair) -> None:
    """COM-04: kept, and does not count."""
    log, author, _ = quiet
    log.append_local("community.member.revoked", {"node": author.node}, founder)
    before = log.replica.fingerprint()
    author.lamport = log.head()
    assert codes(log, author.write()) == ["revoked_author"]
    assert log.replica.fingerprint() == before


def test_11_backdated_after_a_revocation(quiet: Any, founder: KeyPair) -> None:
    """COM-05: an old lamport behind the cut helps nothing."""
    log, author, _ = quiet
    log.append_local("community.member.revoked", {"node": author.node}, founder)
    before = log.replica.fingerprint()
    event = author.write()
    assert event.lamport < log.head()
    assert codes(log, event) == ["revoked_author"]
    assert log.replica.fingerprint() == before


def test_12_a_flood_of_events_without_predecessor(quiet: Any) -> None:
    """COM-04: held up to the bound of the peer, then dropped; another peer still has room."""
    log, author, same = quiet
    author.write()
    for _ in range(3):
        codes(log, *[author.write() for _ in range(500)])
    assert len(log.replica.held) == HELD_EVENTS_MAX
    log.receive(Delivery(community_id=log.community, events=[author.write()]), peer="another")
    assert len(log.replica.held) == HELD_EVENTS_MAX + 1
    assert same()


def test_12_a_flood_of_a_revoked_author(quiet: Any, founder: KeyPair) -> None:
    """COM-04: what does not count is kept up to a bound; behind it nothing of this author is, until somebody asks."""
    log, author, _ = quiet
    log.append_local("community.member.revoked", {"node": author.node}, founder)
    for _ in range(3):
        assert set(codes(log, *[author.write() for _ in range(700)])) == {"revoked_author"}
    assert log.replica.feeds[author.node].head.seq == 1001


def test_13_too_many_events_at_once(quiet: Any) -> None:
    """COM-09: a delivery has a bound."""
    log, author, same = quiet
    with pytest.raises(errors.BadMessage):
        codes(log, *[author.write()] * 1001)
    assert same()


def test_14_one_huge_event(quiet: Any) -> None:
    """COM-01: past the limit of an event it is refused, before its signature is looked at."""
    log, author, same = quiet
    event = changed(author.write(), data={"text": "x" * (1 << 20)})
    assert codes(log, event) == ["invalid_signature"]
    assert same()


def test_15_a_list_of_a_million_links(quiet: Any) -> None:
    """COM-09: what may be asked for at once has a bound."""
    log, _, _ = quiet
    with pytest.raises(errors.BadMessage):
        log.fetch(Fetch(community_id=log.community, links=["00" * 32] * 1_000_000))


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "https://[::1]",
        "https://2130706433",
        "https://localhost.",
        "https://0.0.0.0",
        "https://[::ffff:10.0.0.1]",
        "http://8.8.8.8",
        "https://user:word@8.8.8.8",
        "file:///etc/passwd",
        "https://8.8.8.8/path",
        "https://8.8.8.8:99999",
    ],
)
def test_16_a_peer_where_none_may_be(url: str) -> None:
    """COM-09: private, metadata and mapped addresses, other schemes and paths are refused."""
    with pytest.raises(errors.PeerRefused):
        addresses.check(url, allow_private=False)


def test_16_a_private_peer_when_allowed() -> None:
    """COM-09: with permission a private address may be called, also over http; a public one never in the clear."""
    assert addresses.check("http://127.0.0.1:7001", allow_private=True).is_local
    with pytest.raises(errors.PeerRefused):
        addresses.check("http://8.8.8.8", allow_private=True)


def test_17_events_in_our_own_name(quiet: Any, founder: KeyPair) -> None:
    """COM-04: nobody else can sign with our key."""
    log, author, same = quiet
    assert codes(log, changed(author.write(), author=founder.node)) == ["invalid_signature"]
    assert same()


@pytest.mark.parametrize("version", [0x00, 0x60, 0x63, 0x99])
def test_18_another_version_of_the_protocol(quiet: Any, version: int) -> None:
    """COM-09: one that could be understood is answered with ours, anything else refused."""
    log, _, _ = quiet
    request = Reconcile(community_id=log.community, floor="", message=bytes([version, 0, 0, 0]))
    if 0x60 <= version <= 0x6F:
        assert log.reconcile(request).message == b"\x61"
    else:
        with pytest.raises(errors.BadMessage):
            log.reconcile(request)


def test_19_a_message_that_stops_in_the_middle(quiet: Any) -> None:
    """COM-09: every prefix of a message is answered or refused, none crashes. (A stalled body: test_service.py.)"""
    log, _, _ = quiet
    whole = Reconciler(Items([(n, bytes([n]) * 32) for n in range(40)])).begin()
    refused = 0
    for length in range(len(whole)):
        try:
            log.reconcile(Reconcile(community_id=log.community, floor="", message=whole[:length]))
        except errors.BadMessage:
            refused += 1
    assert refused > len(whole) / 2, "a message that was cut is seldom whole"


def test_20_two_peers_with_different_histories(quiet: Any) -> None:
    """COM-09: one author, one length, two roots: evidence, whichever peer came first."""
    log, author, same = quiet
    left, right = (wire_format.to_wire(author.entry(data={"n": n}), log.community) for n in (1, 2))
    for peer, event in (("one", left), ("other", right)):
        log.receive(Delivery(community_id=log.community, events=[event]), peer=peer)
    assert log.replica.forks() == {author.node: 2}
    assert same()
