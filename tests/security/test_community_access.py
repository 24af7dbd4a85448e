"""Who may read a community is decided from its counted roster alone, at each request and before each call."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tallystick import errors
from tallystick.community import EventLog, Fanout, HttpClient, Peer, SyncClient
from tallystick.community.wire_format import to_wire
from tallystick.testing.community.people import Author, keys
from tests.security.community_club import URL, Club, club

pytestmark = pytest.mark.security

MEMBER, STRANGER, INVITE, ADMIN = (keys(number) for number in (2, 3, 4, 5))


@pytest.fixture
def house() -> Iterator[Club]:
    """The founder's node, which has key 2 on its list of peers."""
    with club(listed=frozenset({MEMBER.node})) as made:
        yield made


def revoked(house: Club) -> Author:
    """A member that was revoked; then something was written that it must not see."""
    author = house.member(2)
    assert house.fetch_all(MEMBER).status_code == 200
    house.act("revoked", author.node)
    house.log.append_local("chat.message.sent", {"text": "after"}, house.keys)
    return author


def test_a_revoked_member_is_refused_though_it_is_listed(house: Club) -> None:
    """COM-05, COM-09: being on the list of peers does not outlive the membership."""
    revoked(house)
    assert house.fetch_all(MEMBER).status_code == 403


@pytest.mark.parametrize("path", ["/sync/v1/heads", "/sync/v1/snapshot"])
def test_a_revoked_member_is_refused_with_its_own_key_as_invitation(house: Club, path: str) -> None:
    """COM-05, COM-09: the invitation of then is spent, whatever key it names."""
    revoked(house)
    assert house.ask(MEMBER, "GET", path, invite=MEMBER).status_code == 403
    assert b"after" not in house.fetch_all(MEMBER, invite=MEMBER).content


def test_strangers_that_a_member_vouches_for_are_refused(house: Club) -> None:
    """COM-05: a member's own key is no invitation, before its revocation or after."""
    house.member(2)
    assert house.fetch_all(STRANGER, invite=MEMBER).status_code == 403
    house.act("revoked", MEMBER.node)
    assert house.fetch_all(STRANGER, invite=MEMBER).status_code == 403
    assert house.fetch_all(STRANGER, invite=house.keys).status_code == 403, "nor is the founder's"


def test_an_invitation_that_was_used_up_admits_nobody(house: Club) -> None:
    """COM-05: a single-use invitation is good until somebody has joined with it."""
    house.act("invited", INVITE.node)
    assert house.fetch_all(STRANGER, invite=INVITE).status_code == 200
    first = Author(keys(6), house.keys.node)
    first.lamport = house.log.head()
    assert house.deliver(first.write("community.member.joined", joining(first, INVITE))).accepted == 1
    assert house.fetch_all(STRANGER, invite=INVITE).status_code == 403
    assert house.fetch_all(first.keys).status_code == 200


def joining(author: Author, invite: Any) -> dict[str, str]:
    """What it takes to join with the key of an invitation."""
    from tallystick.community.acts import proof_text

    return {"invite": invite.node, "proof": invite.sign(proof_text(author.community, author.node)).hex()}


def test_an_invitation_by_a_plain_member_admits_nobody(house: Club) -> None:
    """COM-05: what does not count opens nothing, though it is kept."""
    author = house.member(2)
    author.lamport = house.log.head()
    house.deliver(author.write("community.member.invited", {"node": INVITE.node}))
    assert house.fetch_all(STRANGER, invite=INVITE).status_code == 403
    assert house.fetch_all(INVITE).status_code == 403


def test_an_invitation_of_an_admin_that_is_cut_off_admits_nobody(house: Club) -> None:
    """COM-05: an invitation behind the cut of its author's revocation does not count any more."""
    admin = house.member(5, "admin")
    admin.lamport = house.log.head()
    house.deliver(admin.write("community.member.invited", {"node": INVITE.node, "uses": 9}))
    assert house.fetch_all(STRANGER, invite=INVITE).status_code == 200
    house.act("revoked", ADMIN.node, seq=1)
    assert house.fetch_all(STRANGER, invite=INVITE).status_code == 403


def test_the_rest_of_an_invitation_can_be_taken_back(house: Club) -> None:
    """COM-05: revoking the invitation's own key voids what is left of it; those who joined stay."""
    house.act("invited", INVITE.node, uses=9)
    first, second = (Author(keys(number), house.keys.node) for number in (6, 7))
    first.lamport = house.log.head()
    house.deliver(first.write("community.member.joined", joining(first, INVITE)))
    house.act("revoked", INVITE.node)
    second.lamport = house.log.head()
    house.deliver(second.write("community.member.joined", joining(second, INVITE)))
    assert house.fetch_all(STRANGER, invite=INVITE).status_code == 403
    assert house.fetch_all(second.keys).status_code == 403
    assert house.fetch_all(first.keys).status_code == 200


def test_a_new_invitation_brings_a_revoked_member_back(house: Club) -> None:
    """COM-05: whoever was revoked may ask again as soon as somebody with the rank invites that key again."""
    revoked(house)
    house.act("invited", MEMBER.node)
    assert house.fetch_all(MEMBER, invite=MEMBER).status_code == 200
    assert house.fetch_all(MEMBER).status_code == 200, "the invitation names its key: the signature is the proof"


def test_a_revocation_by_another_process_counts_at_once(tmp_path: Path) -> None:
    """COM-05, COM-09: each request is judged by what is on disk by then."""
    import tallystick

    with club(f"sqlite:{tmp_path / 'log.db'}") as house:
        house.member(2)
        with tallystick.open(f"sqlite:{tmp_path / 'log.db'}", profile="community") as store:
            other = EventLog(store, house.keys.node, node=house.keys.node)
            other.append_local("community.member.revoked", {"node": MEMBER.node}, house.keys)
        assert house.fetch_all(MEMBER).status_code == 403


# --- what this node sends by itself ----------------------------------------------------------------------------------


def test_a_round_does_not_push_to_a_peer_that_was_revoked(house: Club) -> None:
    """COM-05, COM-09: a peer that is still written down is not called any more."""
    revoked(house)
    called: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        called.append(request.url.path)
        return httpx.Response(500)

    async def sync() -> None:
        peer, transport = Peer(URL, MEMBER.node), httpx.MockTransport(answer)
        client = HttpClient(peer, house.keys, house.keys.node, allow_private=True, transport=transport)
        async with client:
            await SyncClient(house.log).sync_with(client)

    with pytest.raises(errors.PeerRefused, match="revoked"):
        asyncio.run(sync())
    assert called == []


def test_news_are_not_handed_to_a_peer_that_was_revoked(house: Club) -> None:
    """COM-05, COM-11: fan-out asks the roster too, at the moment at which it sends."""
    author = house.member(2)
    called: list[str] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        peer = Peer(f"http://127.0.0.1:{taken.getsockname()[1]}", author.node)

        def connect(peer: Peer) -> HttpClient:
            called.append(peer.key)
            return HttpClient(peer, house.keys, house.keys.node, allow_private=True)

        with Fanout(house.log, lambda: [peer], connect) as fanout:
            house.act("revoked", author.node)
            house.log.append_local("chat.message.sent", {"text": "after"}, house.keys)
            assert fanout.flush(60)
    assert called == []


def test_a_copy_of_the_joining_event_does_not_help(house: Club) -> None:
    """COM-05: to join again with the spent invitation, with any lamport, is kept and opens nothing."""
    author = revoked(house)
    for lamport in (house.log.head() + 5, author.lamport + 1):
        author.lamport = lamport
        again = to_wire(author.entry("community.member.joined", {"invite": author.node}), house.keys.node)
        house.deliver(again)
        assert house.fetch_all(MEMBER, invite=MEMBER).status_code == 403
