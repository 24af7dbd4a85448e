"""Gossip over HTTP: a round with a peer, and when rounds are due.

Peers come from a list with keys. No address is ever taken from a message, no redirect is followed, and an answer that
is not signed with the peer's key is refused.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar, cast

import httpx
import msgspec

from tallystick import errors
from tallystick.community import addresses, credentials, identity
from tallystick.community.addresses import Address
from tallystick.community.identity import KeyPair
from tallystick.community.log import EventLog
from tallystick.community.messages import (
    BODY_BYTES_MAX,
    Delivery,
    Fetch,
    HeadsReport,
    HeadsRequest,
    Receipt,
    Reconcile,
    Request,
    Response,
    delivery_of,
)
from tallystick.community.session import SyncSession, Talk

Said = TypeVar("Said")

SECONDS_MAX = 10.0
SNAPSHOT_SECONDS_MAX = 120.0
ROUND_SECONDS_MAX = 240.0
SNAPSHOT_BYTES_MAX = 256 << 20


class Peer(msgspec.Struct, frozen=True):
    """A peer: its URL, and the key that must sign its answers."""

    url: str
    key: str


class SyncResult(msgspec.Struct, frozen=True):
    """How much a round transferred."""

    sent_count: int
    received_count: int
    duration_ms: int
    cut_short: bool = False  # the budget was used up; the next round continues


class HttpClient:
    """Signed requests to one peer. With https its certificate must be valid for its name; `tls` sets the
    authorities.
    """

    def __init__(
        self,
        peer: Peer,
        keys: KeyPair,
        community: str,
        *,
        allow_private: bool = False,
        invite: tuple[str, str] | None = None,
        clock: Callable[[], int] = time.time_ns,
        transport: httpx.AsyncBaseTransport | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.peer = peer
        self._keys = keys
        self._community = community
        self._invite = invite
        self._clock = clock
        self._address: Address = addresses.check(peer.url, allow_private=allow_private)
        self._client = httpx.AsyncClient(
            base_url=self._address.url,
            timeout=SECONDS_MAX,
            follow_redirects=False,
            trust_env=False,
            verify=True if tls is None else tls,
            transport=transport,
        )

    async def ask(self, request: Request) -> Response:
        """Send one request of a session and return the answer."""
        if isinstance(request, HeadsRequest):
            return _decoded(await self._send("GET", "/sync/v1/heads", b""), HeadsReport, self.peer)
        if isinstance(request, Reconcile):
            body = await self._send("POST", "/sync/v1/reconcile", msgspec.msgpack.encode(request))
            return _decoded(body, Reconcile, self.peer, packed=True)
        body = msgspec.json.encode(request)
        if isinstance(request, Delivery):
            return _decoded(await self._send("POST", "/sync/v1/events", body), Receipt, self.peer)
        assert isinstance(request, Fetch)
        return _read(await self._send("POST", "/sync/v1/fetch", body), delivery_of, self.peer)

    async def snapshot(self) -> bytes:
        """The bytes of the peer's newest snapshot."""
        return await self._send("GET", "/sync/v1/snapshot", b"", bytes_max=SNAPSHOT_BYTES_MAX)

    async def _send(self, method: str, path: str, body: bytes, *, bytes_max: int = BODY_BYTES_MAX) -> bytes:
        headers = credentials.sign_request(
            self._keys,
            self._community,
            method=method,
            path=path,
            to=self.peer.key,
            body=body,
            now_ns=self._clock(),
            invite=self._invite,
        )
        extensions = {"sni_hostname": self._address.host}
        headers["host"] = f"{self._address.host}:{self._address.port}"
        try:
            async with asyncio.timeout(SNAPSHOT_SECONDS_MAX if bytes_max > BODY_BYTES_MAX else 3 * SECONDS_MAX):
                sending = self._client.stream(method, path, content=body, headers=headers, extensions=extensions)
                async with sending as response:
                    return await self._read(response, headers[credentials.SIGNATURE], bytes_max)
        except (httpx.HTTPError, TimeoutError, OSError) as problem:
            reason = str(problem) or type(problem).__name__
            raise errors.SyncFailed(peer=self.peer.url, reason=reason[:200]) from None

    async def _read(self, response: httpx.Response, asked: str, bytes_max: int) -> bytes:
        found = bytearray()
        async for chunk in response.aiter_raw():
            found += chunk
            if len(found) > bytes_max:
                raise errors.SyncFailed(peer=self.peer.url, reason="the answer is too large")
        body = bytes(found)
        text = credentials.answer_text(
            self._community, status=response.status_code, asked=asked, by=self.peer.key, body=body
        )
        signature = identity.unhex(response.headers.get(credentials.SIGNATURE, ""))
        if not identity.verify(identity.public_key(self.peer.key), text, signature):
            raise errors.SyncFailed(peer=self.peer.url, reason="the answer is not signed by the peer's key")
        if response.status_code != 200:
            said = body[:200].decode("utf-8", "replace")
            raise errors.SyncFailed(peer=self.peer.url, reason=f"it answered {response.status_code}: {said}")
        return body

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()


class SyncClient:
    """Runs rounds of gossip for one log."""

    def __init__(self, log: EventLog, *, seconds_max: float = ROUND_SECONDS_MAX) -> None:
        self._log = log
        self._seconds_max = seconds_max

    async def sync_with(self, client: HttpClient) -> SyncResult:
        """Run one round with a peer. What arrived is stored, even if the round fails later."""
        started = time.monotonic()
        session = SyncSession(self._log, client.peer.key)
        await self.talk(client, session.run)
        taken_ms = int((time.monotonic() - started) * 1000)
        return SyncResult(session.tally.sent, session.tally.received, taken_ms, session.tally.cut_short)

    async def talk(self, client: HttpClient, begin: Callable[[], Talk]) -> None:
        """Send the requests of a session to a peer, one after the other."""
        await asyncio.to_thread(self._log.refresh)
        try:
            async with asyncio.timeout(self._seconds_max):
                await self._talk(client, begin())
        except TimeoutError:
            reason = f"it took more than {self._seconds_max:g} seconds"
            raise errors.SyncFailed(peer=client.peer.url, reason=reason) from None

    async def _talk(self, client: HttpClient, talk: Talk) -> None:
        request = await asyncio.to_thread(self._advance, talk, None)
        while request is not None:
            credentials.require_welcome(self._log.replica, client.peer.key)  # the round may deliver its revocation
            answer = await client.ask(request)
            request = await asyncio.to_thread(self._advance, talk, answer)

    def _advance(self, talk: Any, answer: Response | None) -> Request | None:
        """The next request of a session; None when it is over."""
        try:
            return cast(Request, talk.send(answer))
        except StopIteration:
            return None


def _decoded(body: bytes, kind: type[Said], peer: Peer, *, packed: bool = False) -> Said:
    decode = msgspec.msgpack.decode if packed else msgspec.json.decode
    return _read(body, lambda text: decode(text, type=kind), peer)


def _read(body: bytes, read: Callable[[bytes], Said], peer: Peer) -> Said:
    try:
        return read(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise errors.SyncFailed(peer=peer.url, reason=f"its answer is malformed: {str(problem)[:150]}") from None


def trusting(ca_file: str) -> ssl.SSLContext:
    """TLS that verifies as usual, with the authorities in this file instead of the public ones."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as problem:
        raise errors.InvalidValue(what="authorities", value=ca_file, must=f"a PEM file ({problem})") from None


def local_peers(peers: Sequence[Peer]) -> list[Peer]:
    """The peers in this node's own network, which gossip continues with in an emergency."""
    return [peer for peer in peers if addresses.check(peer.url, allow_private=True).is_local]
