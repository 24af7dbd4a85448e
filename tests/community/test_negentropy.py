"""Set reconciliation against the naive answer."""

from __future__ import annotations

import hashlib
import math
import random

import pytest

from tallystick import errors
from tallystick.community.items import Item, Items
from tallystick.community.negentropy import Reconciler
from tallystick.community.varint import VarintReader, varint


def reconcile(ours: list[Item], theirs: list[Item], **options: int) -> tuple[Reconciler, int, int]:
    """Both sides until the end: the one that began, the round trips and the bytes."""
    client, server = Reconciler(Items(ours), **options), Items(theirs)
    message: bytes | None = client.begin()
    trips = size = 0
    while message is not None:
        answer = Reconciler(server, **options).answer(message)  # the responder keeps nothing between messages
        assert answer is not None
        trips, size = trips + 1, size + len(message) + len(answer)
        message = client.answer(answer)
        assert trips < 1000
    return client, trips, size


def item(source: random.Random, spread: int) -> Item:
    """A random item; a small spread makes many of one lamport."""
    return (source.randrange(1, spread + 1), source.randbytes(32))


@pytest.mark.parametrize("part", range(10))
def test_it_finds_what_a_naive_difference_finds(part: int) -> None:
    """COM-09: on 10,000 random pairs of sets, have and need are exactly the two differences."""
    source = random.Random(part)
    for _ in range(1000):
        size = source.choice([0, 1, 5, 40, 200])
        shared = [item(source, source.choice([1, 3, 10_000])) for _ in range(source.randrange(size + 1))]
        ours = shared + [item(source, 10_000) for _ in range(source.randrange(6))]
        theirs = shared + [item(source, 10_000) for _ in range(source.randrange(6))]
        client, _, _ = reconcile(ours, theirs)
        mine, others = {link for _, link in ours}, {link for _, link in theirs}
        assert client.have == mine - others
        assert client.need == others - mine


@pytest.mark.parametrize("differences", [0, 1, 20])
def test_round_trips_and_bytes_are_bounded(differences: int) -> None:
    """COM-09: about half of log16(n) round trips each way, and bytes in proportion to the differences."""
    source = random.Random(differences)
    shared = [item(source, 1_000_000) for _ in range(20_000)]
    extra = [item(source, 1_000_000) for _ in range(differences)]
    client, trips, size = reconcile(shared + extra[: differences // 2], shared + extra[differences // 2 :])
    assert len(client.have) + len(client.need) == differences
    levels = math.ceil(math.log(20_000, 16))
    assert trips <= levels + 1
    assert size <= 500 + (differences * (levels * 16 * 30 + 2 * 32 * 32))


def test_a_small_frame_needs_more_rounds_and_finds_the_same() -> None:
    """COM-09: with the least frame every message stays within it."""
    source = random.Random(4)
    ours = [item(source, 1000) for _ in range(3000)]
    theirs = [item(source, 1000) for _ in range(3000)]
    client, trips, _ = reconcile(ours, theirs, frame_bytes=4096)
    assert client.have == {link for _, link in ours}
    assert client.need == {link for _, link in theirs}
    assert trips > 10
    assert len(Reconciler(Items(ours), frame_bytes=4096).begin()) <= 4096


def test_the_first_message_of_the_protocol() -> None:
    """COM-09: golden bytes: version, bound at infinity, mode list, count, ids; the fingerprint by its definition."""
    link = bytes(range(32))
    message = Reconciler(Items([(7, link)])).begin()
    assert message == bytes([0x61, 0, 0, 2, 1]) + link
    assert Reconciler(Items([])).begin() == bytes([0x61, 0, 0, 2, 0])
    both = Items([(1, b"\xff" * 32), (2, b"\x02" + bytes(31))])
    total = (1).to_bytes(32, "little")  # the sum is taken modulo 2^256
    assert both.fingerprint(0, 2) == hashlib.sha256(total + b"\x02").digest()[:16]


@pytest.mark.parametrize(
    ("number", "encoded"), [(0, "00"), (127, "7f"), (128, "8100"), (300, "822c"), (1 << 63, "81808080808080808000")]
)
def test_numbers_have_their_bytes(number: int, encoded: str) -> None:
    """COM-09: base 128, most significant digit first."""
    assert varint(number).hex() == encoded
    assert VarintReader(varint(number)).number() == number


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x00",
        b"\x99",
        b"\x61\x00",
        b"\x61\x00\x00\x01\x00",
        b"\x61\x00\x00\x07",
        b"\x61\x00\x00\x02\xff\xff\xff\x7f",
        b"\x61" + b"\xff" * 12,
        b"\x61\x00\x21" + bytes(33) + b"\x00",
        b"\x61\x05\x01\x09\x00\x01\x01\x01\x00",
    ],
    ids=lambda message: message.hex()[:24] or "empty",
)
def test_a_malformed_message_is_refused(message: bytes) -> None:
    """COM-09: a typed error, no crash, no memory for a list of four billion."""
    with pytest.raises(errors.BadMessage):
        Reconciler(Items([(1, bytes(32))])).answer(message)


def test_another_version_is_answered_with_ours() -> None:
    """COM-09: a responder names the version it speaks; an initiator gives up."""
    assert Reconciler(Items([])).answer(b"\x62rest") == b"\x61"
    client = Reconciler(Items([]))
    client.begin()
    with pytest.raises(errors.BadMessage):
        client.answer(b"\x62")
