"""A peer that speaks heads and events alone, over real HTTP: settled 21 says that the push direction works.

What it says is put together here from the format's page, with nothing of our messages, session or server.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import socket
import threading
import time
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallystick.community import EventLog, HttpClient, KeyPair, Peer, SyncClient, SyncServer
from tallystick.testing.community.people import keys

SECONDS_MAX = 30


class Serving:
    """An ASGI app on loopback, in a thread of this process."""

    def __init__(self, app: Starlette) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        self._thread = threading.Thread(target=asyncio.run, args=(self._server.serve(sockets=[self._socket]),))

    def __enter__(self) -> Serving:
        self._thread.start()
        deadline = time.monotonic() + SECONDS_MAX
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.005)
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


def lines(*fields: str) -> bytes:
    """What is signed."""
    return "\n".join(("tallystick/challenge/1", *fields)).encode()


class OldPeer:
    """It keeps events by id, knows the highest lamport of each type, and has two endpoints."""

    def __init__(self, community: str, key: KeyPair) -> None:
        self.community, self.key = community, key
        self.events: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        routes = [Route("/sync/v1/heads", self._heads), Route("/sync/v1/events", self._events, methods=["POST"])]
        self.app = Starlette(routes=routes)

    def _head_of(self, type_: str | None = None) -> int:
        found = [event["lamport"] for event in self.events.values() if type_ in (None, event["event_type"])]
        return max(found, default=0)

    def report(self) -> dict[str, Any]:
        """The three fields of the specification, and no other."""
        types = {event["event_type"] for event in self.events.values()}
        heads = {type_: self._head_of(type_) for type_ in types}
        return {"community_id": self.community, "head": self._head_of(), "heads_by_type": heads}

    def _answer(self, request: Request, found: dict[str, Any]) -> Response:
        self.asked.append(request.url.path)
        body = json.dumps(found).encode()
        asked = request.headers["x-tally-signature"]
        text = lines(self.community, "answer", "200", asked, self.key.node, hashlib.sha256(body).hexdigest())
        return Response(body, headers={"x-tally-node": self.key.node, "x-tally-signature": self.key.sign(text).hex()})

    async def _heads(self, request: Request) -> Response:
        return self._answer(request, self.report())

    async def _events(self, request: Request) -> Response:
        found = json.loads(await request.body())
        assert set(found) == {"community_id", "events"}, "nothing is sent that it would not know"
        new = {event["event_id"]: event for event in found["events"] if event["event_id"] not in self.events}
        self.events |= new
        said = {"accepted": len(new), "rejected": 0, "rejected_reasons": [], "new_head": self._head_of()}
        return self._answer(request, said)

    def ask(self, url: str, to: str, method: str, path: str, body: bytes = b"") -> Any:
        """Ask a node, and check its signature."""
        stamp, nonce, digest = str(time.time_ns()), secrets.token_hex(16), hashlib.sha256(body).hexdigest()
        text = lines(self.community, "request", method, path, stamp, nonce, self.key.node, to, digest)
        headers = {"x-tally-node": self.key.node, "x-tally-time": stamp, "x-tally-nonce": nonce}
        headers |= {"x-tally-digest": digest, "x-tally-signature": self.key.sign(text).hex()}
        answer = httpx.request(method, url + path, content=body, headers=headers, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def sync_with(self, url: str, to: str) -> Any:
        """Its own round: ask for the heads, push what lies above them."""
        theirs = self.ask(url, to, "GET", "/sync/v1/heads")["heads_by_type"]
        missing = [event for event in self.events.values() if event["lamport"] > theirs.get(event["event_type"], 0)]
        body = json.dumps({"community_id": self.community, "events": missing}).encode()
        return self.ask(url, to, "POST", "/sync/v1/events", body)


@pytest.fixture
def old(log: EventLog, founder: KeyPair) -> OldPeer:
    """A member of the founder's community that speaks heads and events alone."""
    log.append_local("community.member.invited", {"node": keys(2).node}, founder)
    return OldPeer(founder.node, keys(2))


def test_an_older_peer_is_pushed_what_lies_above_its_heads(old: OldPeer, log: EventLog, founder: KeyPair) -> None:
    """COM-09, settled 21: a round with it succeeds, asks nothing that it does not know, and moves each event once."""
    for number in range(1200):
        log.append_local("chat.message.sent", {"n": number}, founder)
    with Serving(old.app) as serving:

        async def sync() -> Any:
            async with HttpClient(Peer(serving.url, old.key.node), founder, founder.node, allow_private=True) as client:
                return await SyncClient(log).sync_with(client)

        first = asyncio.run(sync())
        assert (first.sent_count, first.received_count, first.cut_short) == (1202, 0, False)
        assert set(old.asked) == {"/sync/v1/heads", "/sync/v1/events"}
        assert set(old.events) == {event.event_id for event in log.replay()}
        again = asyncio.run(sync())
        assert (again.sent_count, again.received_count) == (0, 0)


def test_an_older_peer_pushes_to_a_node(old: OldPeer, log: EventLog, founder: KeyPair, open_log: Any) -> None:
    """COM-09, settled 21: it asks for the heads and delivers what lies above them; a second time nothing is new."""
    import msgspec

    log.append_local("chat.message.sent", {"text": "x"}, founder)
    old.events = {event.event_id: msgspec.to_builtins(event) for event in log.replay()}
    empty = open_log(founder.node, node=keys(3).node)
    with Serving(SyncServer(empty, keys(3), listed=frozenset({old.key.node})).app()) as serving:
        receipt = old.sync_with(serving.url, keys(3).node)
        assert (receipt["accepted"], receipt["rejected"], receipt["new_head"]) == (3, 0, log.head())
        assert empty.replica.fingerprint() == log.replica.fingerprint()
        assert old.sync_with(serving.url, keys(3).node)["accepted"] == 0
