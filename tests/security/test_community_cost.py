"""What a peer sends costs what it is worth: messages are bounded by work, rounds by a budget, and the log goes on.

Work is counted in lines of Python, so that nothing here depends on how fast a machine is.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from tallystick import errors
from tallystick.community import negentropy
from tallystick.community.items import Items
from tallystick.community.messages import Delivery, Fetch, HeadsReport, HeadsRequest, Reconcile
from tallystick.community.negentropy import Reconciler
from tallystick.community.session import SyncSession
from tallystick.community.varint import varint
from tallystick.testing.community.people import Author, keys
from tests.security.community_club import Club, club

pytestmark = pytest.mark.security


@pytest.fixture
def house() -> Iterator[Club]:
    """The founder's node."""
    with club() as made:
        yield made


def lines_run(work: Callable[[], Any]) -> int:
    """How many lines of Python some work takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


# --- reconciliation --------------------------------------------------------------------------------------------------


def skips(count: int) -> bytes:
    """A message of so many ranges about which nothing is said, three bytes each."""
    step = varint(2) + varint(0) + varint(0)  # one further on, no prefix, skip
    return bytes([0x61]) + step * count


@pytest.mark.parametrize("began", [False, True])
def test_a_message_of_ranges_without_end_is_refused(house: Club, began: bool) -> None:
    """COM-09, SAFE-09: 8 MiB of ranges that say nothing are refused after a bounded number, by either side."""
    side = Reconciler(house.log.items())
    if began:
        side.begin()

    def read() -> None:
        with pytest.raises(errors.BadMessage, match="ranges"):
            side.answer(skips(100_000))

    assert lines_run(read) < 100 * negentropy.RANGES_MAX


def test_a_message_that_is_too_long_is_refused_unread(house: Club) -> None:
    """COM-09: a reconciliation message has a bound of its own, below that of a body."""
    with pytest.raises(errors.BadMessage, match="bytes"):
        Reconciler(house.log.items()).answer(bytes([0x61]) + bytes(negentropy.MESSAGE_BYTES_MAX))


def test_a_number_has_ten_digits_at_most(house: Club) -> None:
    """COM-09: zeros before a number are no way to write a long one."""
    with pytest.raises(errors.BadMessage):
        Reconciler(house.log.items()).answer(bytes([0x61]) + b"\x80" * 5000 + b"\x01")


def test_what_we_say_ourselves_is_within_the_bounds() -> None:
    """COM-09: two sets that have nothing in common are reconciled to the end within what each side takes."""
    ours = Items((n, n.to_bytes(32, "big")) for n in range(30_000))
    theirs = Items((n, (n + 50_000).to_bytes(32, "big")) for n in range(30_000))
    client = Reconciler(ours)
    message: bytes | None = client.begin()
    while message is not None:
        answer = Reconciler(theirs).answer(message)
        assert answer is not None
        message = client.answer(answer)
    assert (len(client.have), len(client.need)) == (30_000, 30_000)


class _Watched:
    """Whether the lock of a log is free, asked from another thread while something else goes on."""

    def __init__(self, house: Club) -> None:
        self._lock = house.log.lock
        self.free: list[bool] = []

    def look(self) -> None:
        def attempt() -> None:
            taken = self._lock.acquire(blocking=False)
            self.free.append(taken)
            if taken:
                self._lock.release()

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()


def test_the_lock_is_free_while_a_message_is_read(house: Club, monkeypatch: pytest.MonkeyPatch) -> None:
    """COM-09, SAFE-09: neither a reconciliation nor signatures, of a request or of an answer, are looked at under the
    lock.
    """
    watched = _Watched(house)
    author = house.member(2)
    answer, verify = Reconciler.answer, house.log.replica.verify

    def answering(self: Reconciler, message: bytes) -> bytes | None:
        watched.look()
        return answer(self, message)

    def verifying(key: bytes, text: bytes, signature: bytes) -> bool:
        watched.look()
        return verify(key, text, signature)

    monkeypatch.setattr(Reconciler, "answer", answering)
    monkeypatch.setattr(house.log.replica, "verify", verifying)
    house.log.reconcile(Reconcile(community_id=house.keys.node, floor="", message=b"\x61"))
    house.deliver(author.write())
    one, other = author.write(data={"n": 1}), author.write(data={"n": 2})
    house.log.receive(Delivery(community_id=house.keys.node, evidence=[(one, other)]), peer="p")
    house.log.witness([one])
    assert len(watched.free) >= 5
    assert all(watched.free)


def test_a_ladder_is_found_without_looking_at_every_event(house: Club) -> None:
    """COM-09: what a ladder costs depends on its rungs, not on the log; the list it needs is made once."""
    for _ in range(300):
        house.log.append_local("chat.message.sent", {"text": "x"}, house.keys)
    asked = Fetch(community_id=house.keys.node, ladder=(0, 1 << 40))
    house.log.fetch(asked)
    assert lines_run(lambda: house.log.fetch(asked)) < 300


# --- membership ------------------------------------------------------------------------------------------------------


def acts_of_an_admin(house: Club, count: int) -> list[Any]:
    """So many lowerings and invitations of one key, by an admin."""
    admin = house.member(5, "admin")
    kinds = ("invited", "revoked")
    return [
        admin.write(f"community.member.{kinds[n % 2]}", {"node": keys(6).node, "seq": n % 7, "role": "member"})
        for n in range(count)
    ]


def acts_of_a_member(house: Club, count: int) -> list[Any]:
    """So many acts that decide nothing, by a plain member."""
    member = house.member(6)
    kinds = ("invited", "revoked", "promoted", "demoted", "joined")
    data = {"node": keys(7).node, "invite": member.node, "seq": 0, "role": "admin"}
    return [member.write(f"community.member.{kinds[n % 5]}", data) for n in range(count)]


@pytest.mark.parametrize("make", [acts_of_an_admin, acts_of_a_member])
def test_a_later_act_costs_no_more_than_there_are_acts(make: Callable[[Club, int], list[Any]]) -> None:
    """COM-05: four times as many membership events make the next act four times as dear at most, not sixteen."""
    cost = []
    for count in (200, 800):
        with club() as house:
            house.deliver(*make(house, count))
            cost.append(lines_run(lambda house=house: house.act("invited", keys(8).node)))  # type: ignore[misc]
    assert cost[1] < 6 * cost[0], cost
    assert cost[1] < 800 * 120, cost


# --- rounds ----------------------------------------------------------------------------------------------------------


class Liar:
    """A peer that answers what it likes."""

    def __init__(self, house: Club, author: Author, *, tip: int, each: int) -> None:
        self.house, self.tip = house, tip
        self.events = [author.write() for _ in range(tip)]
        self.author, self.each, self.requests = author, each, 0

    def answer(self, request: Any) -> Any:
        """Claim a tip that nobody can check, and deal events out so many at a time."""
        community = self.house.keys.node
        self.requests += 1
        if isinstance(request, HeadsRequest):
            tips = {self.author.node: (self.tip + 1, "00" * 32)}
            return HeadsReport(community_id=community, head=0, heads_by_type={}, tips=tips)
        if isinstance(request, Fetch):
            after = request.ranges.get(self.author.node, (0, 0))[0]
            found = [event for event in self.events if event.seq > after][: self.each]
            return Delivery(community_id=community, events=found)
        if isinstance(request, Reconcile):
            return Reconcile(community_id=community, floor=request.floor, message=b"\x61")
        return self.house.log.receive(request, peer="x")

    def round(self) -> SyncSession:
        """One round with it."""
        session = SyncSession(self.house.log, "liar")
        talk = session.run()
        request = next(talk)
        try:
            while True:
                request = talk.send(self.answer(request))
        except StopIteration:
            return session


def test_lying_tips_do_not_get_round_the_bound(house: Club) -> None:
    """COM-04, COM-09: of an author without a rank no more than 1,000 events that do not count are kept, whoever says
    that the last of 5,000 counts."""
    author = house.member(2)
    house.act("revoked", author.node)
    author.lamport = house.log.head()
    liar = Liar(house, author, tip=5000, each=1000)
    liar.round()
    liar.round()
    assert house.log.replica.feeds[author.node].head.seq <= 1001
    assert len(house.log.replica.held) <= 1000


def test_an_event_that_counts_behind_many_that_do_not_is_fetched(house: Club) -> None:
    """COM-04: who was invited again after 1,500 idle events is followed: the bound asks for proof, and takes it."""
    author = house.member(2)
    house.act("revoked", author.node)
    house.act("invited", author.node)
    author.lamport = house.log.head()
    idle = [author.write() for _ in range(1500)]
    back = author.write("community.member.joined", {"invite": author.node})
    other = house.member(3)
    other.lamport = back.lamport
    house.deliver(other.write())
    house.act("revoked", author.node, seq=back.seq)
    liar = Liar(house, author, tip=0, each=1000)
    liar.events, liar.tip = [*idle, back], back.seq - 1
    liar.round()
    assert house.log.replica.feeds[author.node].head.seq == back.seq
    assert back.event_id in {event.event_id for event in house.log.replay()}


def test_a_round_has_a_budget(house: Club) -> None:
    """COM-09, SAFE-09: a peer that deals out one event at a time is left after some dozens of requests, and the rest
    is said.
    """
    author = house.member(2)
    liar = Liar(house, author, tip=1100, each=1)
    session = liar.round()
    assert liar.requests < 100
    assert session.tally.cut_short
    assert house.log.replica.feeds[author.node].head.seq > 10, "what came is kept"


def test_a_round_that_brings_much_may_take_long(house: Club) -> None:
    """COM-09: the budget grows with what arrives, so that a whole log can be fetched in one round."""
    author = house.member(2)
    session = Liar(house, author, tip=4500, each=50).round()
    assert not session.tally.cut_short
    assert session.tally.received == 4500
