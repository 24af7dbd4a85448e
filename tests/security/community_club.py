"""A community whose founder's node answers requests in this process: for tests of who is let in, and at what cost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec

import tallystick
from tallystick.community import EventLog, KeyPair, SyncServer
from tallystick.community.acts import proof_text
from tallystick.community.credentials import sign_request
from tallystick.community.entry import FeedStreams
from tallystick.community.messages import Delivery, Fetch
from tallystick.testing.community.people import Author, keys

URL = "http://127.0.0.1:7001"


class Club:
    """The founder (key 1) with a log in memory, or in the store at `url`, and a server that lists `listed`."""

    def __init__(self, store: tallystick.Store, *, listed: frozenset[str] = frozenset()) -> None:
        self.keys = keys(1)
        self.log = EventLog(store, self.keys.node, node=self.keys.node)
        self.log.append_local("community.created", {"name": "club"}, self.keys)
        self.server = SyncServer(self.log, self.keys, listed=listed)
        self.transport = httpx.ASGITransport(self.server.app())

    def act(self, kind: str, node: str, **data: Any) -> None:
        """The founder invites, revokes, promotes or demotes somebody."""
        self.log.append_local(f"community.member.{kind}", {"node": node} | data, self.keys)

    def member(self, number: int, role: str = "member") -> Author:
        """Somebody who was invited and has joined."""
        author = Author(keys(number), self.keys.node)
        self.act("invited", author.node, role=role)
        author.lamport = self.log.head()
        self.log.append_received(author.write("community.member.joined", {"invite": author.node}))
        return author

    def deliver(self, *events: Any, peer: str = "peer") -> Any:
        """Hand events in, as a peer would."""
        return self.log.receive(Delivery(community_id=self.keys.node, events=list(events)), peer=peer)

    def ask(
        self, key: KeyPair, method: str, path: str, body: bytes = b"", *, invite: KeyPair | None = None
    ) -> httpx.Response:
        """A signed request; with `invite`, its key vouches for the one who asks."""
        shown = None
        if invite is not None:
            shown = (invite.node, invite.sign(proof_text(self.keys.node, key.node)).hex())
        headers = sign_request(
            key,
            self.keys.node,
            method=method,
            path=path,
            to=self.keys.node,
            body=body,
            now_ns=self.log.clock(),
            invite=shown,
        )

        async def go() -> httpx.Response:
            async with httpx.AsyncClient(transport=self.transport, base_url=URL) as client:
                return await client.request(method, path, content=body, headers=headers)

        return asyncio.run(go())

    def fetch_all(self, key: KeyPair, *, invite: KeyPair | None = None) -> httpx.Response:
        """Ask for the founder's whole feed."""
        asked = Fetch(community_id=self.keys.node, ranges={self.keys.node: (0, 1000)})
        return self.ask(key, "POST", "/sync/v1/fetch", msgspec.json.encode(asked), invite=invite)

    def again(self) -> EventLog:
        """The log, read anew from the same store."""
        return EventLog(self.log.disk, self.keys.node)

    @property
    def streams(self) -> FeedStreams:
        """The names of the community's streams."""
        return self.log.replica.streams


@contextmanager
def club(url: str = "memory:", *, listed: frozenset[str] = frozenset()) -> Iterator[Club]:
    """A club, for a `with` block."""
    with tallystick.open(url, profile="community") as store:
        yield Club(store, listed=listed)
