"""The endpoints: who may ask, what is answered, and what is refused before it costs anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tallystick import errors
from tallystick.community import EventLog, HttpClient, KeyPair, Peer, SyncClient, SyncServer, service
from tallystick.community.credentials import SIGNATURE, sign_request
from tallystick.community.messages import Delivery
from tallystick.testing.community.people import Author, keys

Open = Callable[..., EventLog]
URL = "http://127.0.0.1:7001"


class House:
    """A node with a server in this process, and clients that reach it without a network."""

    def __init__(self, log: EventLog, founder: KeyPair) -> None:
        self.log, self.keys = log, founder
        self.server = SyncServer(log, founder, listed=frozenset({keys(2).node}))
        self.transport = httpx.ASGITransport(self.server.app())

    def client(self, key: KeyPair, *, expects: str | None = None, **options: Any) -> HttpClient:
        peer = Peer(URL, expects or self.keys.node)
        return HttpClient(peer, key, self.log.community, allow_private=True, transport=self.transport, **options)

    def send(self, method: str, path: str, body: bytes = b"", *, key: KeyPair | None = None, **headers: str) -> Any:
        """A request whose headers can be spoilt."""
        signed = {}
        if key is not None:
            signed = sign_request(
                key, self.log.community, method=method, path=path, to=self.keys.node, body=body, now_ns=self.log.clock()
            )

        async def go() -> httpx.Response:
            async with httpx.AsyncClient(transport=self.transport, base_url=URL) as client:
                return await client.request(method, path, content=body, headers=signed | headers)

        return asyncio.run(go())


@pytest.fixture
def house(log: EventLog, founder: KeyPair) -> House:
    """The founder's node, which lists key 2 as a peer."""
    return House(log, founder)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Wait for it."""
    return asyncio.run(work)


def test_a_round_over_http(house: House, open_log: Open, founder: KeyPair) -> None:
    """COM-09: heads, fetch, events and reconcile over the wire make two nodes equal; the second round moves nothing."""
    house.log.append_local("community.member.invited", {"node": keys(2).node}, founder)
    mine = open_log(founder.node, node=keys(2).node)

    async def sync() -> Any:
        async with house.client(keys(2)) as client:
            return await SyncClient(mine).sync_with(client)

    assert run(sync()).received_count == 2
    mine.append_local("community.member.joined", {"invite": keys(2).node}, keys(2))
    assert run(sync()).sent_count == 1
    again = run(sync())
    assert (again.sent_count, again.received_count) == (0, 0)
    assert mine.replica.fingerprint() == house.log.replica.fingerprint()


def test_the_heads_have_the_fields_of_the_specification(house: House) -> None:
    """COM-09: community_id, head and heads_by_type, as older peers read them."""
    answer = house.send("GET", "/sync/v1/heads", key=keys(2))
    found = answer.json()
    assert answer.status_code == 200
    assert found["community_id"] == house.log.community
    assert found["head"] == 1
    assert found["heads_by_type"] == {"community.created": 1}


def test_the_receipt_has_the_fields_of_the_specification(house: House, author: Callable[[int], Author]) -> None:
    """COM-09: accepted, rejected, rejected_reasons with event_id and reason, new_head; only heads and events needed."""
    event = author(9).write()
    body = msgspec.json.encode(Delivery(community_id=house.log.community, events=[event]))
    found = house.send("POST", "/sync/v1/events", body, key=keys(2)).json()
    reasons = [{"event_id": event.event_id, "reason": "unknown_author"}]
    assert found == {"accepted": 0, "rejected": 1, "rejected_reasons": reasons, "new_head": 1}


def test_who_is_not_listed_is_not_served(house: House) -> None:
    """COM-09: no signature, a stranger, our own key, another's body, an old request and a repeated one are refused."""
    assert house.send("GET", "/sync/v1/heads").status_code == 403
    assert house.send("GET", "/sync/v1/heads", key=keys(9)).status_code == 403
    assert house.send("GET", "/sync/v1/heads", key=house.keys).status_code == 403
    assert house.send("GET", "/sync/v1/heads", key=keys(2), **{SIGNATURE: "00" * 64}).status_code == 403
    assert house.send("GET", "/sync/v1/heads", key=keys(2), **{"x-tally-time": "1"}).status_code == 403
    signed = sign_request(
        keys(2),
        house.log.community,
        method="GET",
        path="/sync/v1/heads",
        to=house.keys.node,
        body=b"",
        now_ns=house.log.clock(),
    )
    assert house.send("GET", "/sync/v1/heads", **signed).status_code == 200
    assert house.send("GET", "/sync/v1/heads", **signed).status_code == 403


def test_a_newcomer_shows_its_invitation(house: House, founder: KeyPair) -> None:
    """COM-09: whoever holds an invitation may ask before anybody knows its key; a forged proof opens nothing."""
    from tallystick.community.acts import proof_text

    invite = keys(8)
    house.log.append_local("community.member.invited", {"node": invite.node}, founder)
    proof = invite.sign(proof_text(founder.node, keys(9).node)).hex()

    async def heads(key: KeyPair, shown: str) -> Any:
        from tallystick.community.messages import HeadsRequest

        async with house.client(key, invite=(invite.node, shown)) as client:
            return await client.ask(HeadsRequest(community_id=founder.node))

    assert run(heads(keys(9), proof)).head == 2
    for key, shown in ((keys(7), proof), (keys(9), "00" * 64)):
        with pytest.raises(errors.SyncFailed):
            run(heads(key, shown))


def test_an_answer_of_another_key_is_no_answer(house: House) -> None:
    """COM-09: a client trusts the key it has written down, not whoever answers at the address."""

    async def sync() -> None:
        async with house.client(keys(2), expects=keys(5).node) as client:
            await SyncClient(house.log).sync_with(client)

    with pytest.raises(errors.SyncFailed):
        run(sync())


def test_a_redirect_is_not_followed(founder: KeyPair, log: EventLog) -> None:
    """COM-09: an answer that points elsewhere is a failure, and what it points to is not called."""
    called: list[str] = []

    async def elsewhere(request: Request) -> Response:
        called.append(request.url.path)
        return RedirectResponse("http://127.0.0.1:7001/elsewhere")

    app = Starlette(routes=[Route("/{path:path}", elsewhere)])

    async def sync() -> None:
        peer, transport = Peer(URL, founder.node), httpx.ASGITransport(app)
        async with HttpClient(peer, keys(2), founder.node, allow_private=True, transport=transport) as client:
            await SyncClient(log).sync_with(client)

    with pytest.raises(errors.SyncFailed):
        run(sync())
    assert called == ["/sync/v1/heads"]


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"community_id":1}', b"[" * 100_000])
def test_a_malformed_body_is_refused(house: House, body: bytes) -> None:
    """COM-09: 400 with a name, no 500, and no event echoed."""
    for path in ("/sync/v1/events", "/sync/v1/fetch", "/sync/v1/reconcile"):
        answer = house.send("POST", path, body, key=keys(2))
        assert answer.status_code == 400
        assert json.loads(answer.content)["error"] == "BadMessage"


def test_a_body_past_the_limit_is_refused(house: House) -> None:
    """COM-09: 413, without reading it to the end."""
    assert house.send("POST", "/sync/v1/events", b"x" * (9 << 20), key=keys(2)).status_code == 413


def test_a_body_that_stalls_is_given_up(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """COM-09: 408 after the time for a body is over."""
    monkeypatch.setattr(service, "BODY_SECONDS_MAX", 0.05)
    app = house.server.app()
    sent: list[dict[str, Any]] = []

    async def stalls() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    head = sign_request(
        keys(2), house.log.community, method="POST", path="/sync/v1/events", to=house.keys.node, body=b"{",
        now_ns=house.log.clock(),
    )  # fmt: skip
    signed = [(name.encode(), value.encode()) for name, value in head.items()]
    scope = {
        "type": "http", "method": "POST", "path": "/sync/v1/events", "raw_path": b"", "query_string": b"",
        "headers": signed, "http_version": "1.1", "scheme": "http", "server": ("x", 1), "client": ("y", 2),
        "root_path": "",
    }  # fmt: skip
    run(app(scope, stalls, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 408


def test_bad_signatures_shut_a_peer_out(house: House, author: Callable[[int], Author]) -> None:
    """COM-09: after three events that nobody signed, a peer is refused for a while."""
    event = msgspec.structs.replace(author(9).write(), signature="00" * 64)
    body = msgspec.json.encode(Delivery(community_id=house.log.community, events=[event] * 3))
    assert house.send("POST", "/sync/v1/events", body, key=keys(2)).status_code == 200
    assert house.send("GET", "/sync/v1/heads", key=keys(2)).status_code == 403


def test_a_peer_that_knows_heads_and_events_alone_is_served(log: EventLog, open_log: Open, founder: KeyPair) -> None:
    """COM-09: its heads say nothing but lamports; it gets what lies above them."""
    from tallystick.community.messages import HeadsReport, HeadsRequest
    from tallystick.community.session import SyncSession

    log.append_local("chat.message.sent", {"text": "x"}, founder)
    session = SyncSession(log, "old")
    talk = session.run()
    assert isinstance(next(talk), HeadsRequest)
    push = talk.send(HeadsReport(community_id=founder.node, head=1, heads_by_type={"community.created": 1}))
    assert isinstance(push, Delivery)
    assert [event.event_type for event in push.events] == ["chat.message.sent"]
