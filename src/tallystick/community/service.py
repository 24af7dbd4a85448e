"""The endpoints of gossip as an ASGI app, for `tally community sync --listen` and for servers that mount it.

    GET  /sync/v1/heads        HeadsReport                 JSON
    POST /sync/v1/events       Delivery -> Receipt         JSON
    POST /sync/v1/fetch        Fetch -> Delivery           JSON
    POST /sync/v1/reconcile    Reconcile -> Reconcile      MessagePack
    GET  /sync/v1/snapshot     the newest snapshot         bytes

Every request is signed (credentials.py), and its sender is known before its body is read. Bodies are limited in bytes
and in time, peers in how much they request at once, answers in how long they wait to be read. A peer that sends events
with bad signatures is blocked for a while.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tallystick import errors
from tallystick.community import credentials
from tallystick.community.credentials import Asking, Doorkeeper
from tallystick.community.fanout import Fanout
from tallystick.community.identity import KeyPair
from tallystick.community.log import EventLog
from tallystick.community.messages import BODY_BYTES_MAX, Delivery, Fetch, HeadsReport, Receipt, Reconcile, delivery_of
from tallystick.community.snapshot import SnapshotStore, dump
from tallystick.community.turns import RequestTurn, Turns

BODY_SECONDS_MAX = 10.0
ANSWER_SECONDS_MAX = 60.0
ANSWER_SLICE_BYTES = 256 << 10
BAD_EVENTS_MAX = 3
BAN_NS = 600_000_000_000
JSON = "application/json"
PACKED = "application/msgpack"
BYTES = "application/octet-stream"

_UNREAD = (403, 408, 413, 429)

Decoded = TypeVar("Decoded")


class SyncServer:
    """Answers peers from one log."""

    def __init__(
        self,
        log: EventLog,
        keys: KeyPair,
        *,
        listed: frozenset[str] = frozenset(),
        snapshots: SnapshotStore | None = None,
        clock: Callable[[], int] = time.time_ns,
        fanout: Fanout | None = None,
    ) -> None:
        self._fanout = fanout
        self._log = log
        self._keys = keys
        self._snapshots = snapshots
        self._clock = clock
        self._door = Doorkeeper(log.replica, node=keys.node, listed=listed, clock=clock)
        self._turns = Turns()
        self._bad: dict[str, tuple[int, int]] = {}  # peer -> number of bad events, and the time of the last one

    async def serve_heads(self) -> HeadsReport:
        """How far this node is."""
        await asyncio.to_thread(self._log.refresh)
        return self._log.heads()

    async def serve_events(self, delivery: Delivery, *, peer: str) -> Receipt:
        """Accept what a peer sends."""
        receipt = await asyncio.to_thread(self._log.receive, delivery, peer=peer)
        bad = sum(each.reason == "invalid_signature" for each in receipt.rejected_reasons)
        if bad:
            count, _ = self._bad.get(peer, (0, 0))
            self._bad[peer] = (count + bad, self._clock())
        return receipt

    def app(self) -> Starlette:
        """The ASGI app."""
        routes = [
            ("/sync/v1/heads", "GET", self._heads),
            ("/sync/v1/events", "POST", self._events),
            ("/sync/v1/fetch", "POST", self._fetch),
            ("/sync/v1/reconcile", "POST", self._reconcile),
            ("/sync/v1/snapshot", "GET", self._snapshot),
        ]
        served = [Route(path, self._guarded(serve), methods=[way]) for path, way, serve in routes]
        return Starlette(routes=served, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Send new events to peers while the app runs. A server that mounts the app starts the fan-out itself."""
        if self._fanout is not None:
            self._fanout.start()
        try:
            yield
        finally:
            if self._fanout is not None:
                await asyncio.to_thread(self._fanout.stop)

    # --- endpoints -------------------------------------------------------------------------------------------------

    async def _heads(self, peer: str, body: bytes) -> tuple[bytes, str]:
        return msgspec.json.encode(await self.serve_heads()), JSON

    async def _events(self, peer: str, body: bytes) -> tuple[bytes, str]:
        return msgspec.json.encode(await self.serve_events(_delivery(body), peer=peer)), JSON

    async def _fetch(self, peer: str, body: bytes) -> tuple[bytes, str]:
        return msgspec.json.encode(await asyncio.to_thread(self._log.fetch, _decoded(body, Fetch))), JSON

    async def _reconcile(self, peer: str, body: bytes) -> tuple[bytes, str]:
        try:
            request = msgspec.msgpack.decode(body, type=Reconcile)
        except msgspec.MsgspecError as problem:
            raise errors.BadMessage(what="the body", reason=str(problem)[:200]) from None
        return msgspec.msgpack.encode(await asyncio.to_thread(self._log.reconcile, request)), PACKED

    async def _snapshot(self, peer: str, body: bytes) -> tuple[bytes, str]:
        found = await asyncio.to_thread(self._snapshots.latest) if self._snapshots else None
        if found is None:
            raise errors.SnapshotRejected(reason="this node has none")
        return dump(found), BYTES

    # --- the way in and out ----------------------------------------------------------------------------------------

    def _guarded(
        self, serve: Callable[[str, bytes], Awaitable[tuple[bytes, str]]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            status, content, kind, turn = 200, b"", JSON, None
            try:
                asking = await self._admitted(request)
                turn = self._turns.take(asking.payer)
                content, kind = await self._answer(request, asking, serve)
                turn.hold(len(content))
            except errors.PeerRefused as refusal:
                status, content = 403, _problem(refusal)
            except errors.SnapshotRejected as refusal:
                status, content = 404, _problem(refusal)
            except errors.TooLarge as refusal:
                status, content = 413, _problem(refusal)
            except errors.Overloaded as refusal:
                status, content = 429, _problem(refusal)
            except (TimeoutError, ClientDisconnect):
                status, content = 408, b'{"error":"Timeout"}'
            except errors.TallyError as refusal:
                status, content = (400 if refusal.exit_status == 1 else 503), _problem(refusal)
            except BaseException:
                _end(turn)
                raise
            return self._signed(request, status, content, kind, turn)

        return endpoint

    async def _admitted(self, request: Request) -> Asking:
        """The sender of a request, if it may read; decided from the headers."""
        asking = self._door.identify(request.headers, method=request.method, path=request.url.path)
        await asyncio.to_thread(self._log.refresh)  # another process may just have invited or revoked it
        asking = self._door.admit(asking)
        self._require_conduct(asking.node)
        return asking

    async def _answer(
        self, request: Request, asking: Asking, serve: Callable[[str, bytes], Awaitable[tuple[bytes, str]]]
    ) -> tuple[bytes, str]:
        body = await asyncio.wait_for(_body(request), BODY_SECONDS_MAX)
        if credentials.digest(body) != asking.digest:
            raise errors.PeerRefused(peer=asking.node, reason="the body is not the signed one")
        return await serve(asking.node, body)

    def _require_conduct(self, peer: str) -> None:
        count, last = self._bad.get(peer, (0, 0))
        if count >= BAD_EVENTS_MAX:
            if self._clock() - last < BAN_NS:
                raise errors.PeerRefused(peer=peer, reason="it sent too many events with bad signatures")
            del self._bad[peer]

    def _signed(self, request: Request, status: int, content: bytes, kind: str, turn: RequestTurn | None) -> Response:
        asked = request.headers.get(credentials.SIGNATURE, "")[:128]
        text = credentials.answer_text(
            self._log.community, status=status, asked=asked, by=self._keys.node, body=content
        )
        headers = {credentials.NODE: self._keys.node, credentials.SIGNATURE: self._keys.sign(text).hex()}
        if status in _UNREAD:
            headers["connection"] = "close"  # the body was not read, and is not awaited
        return _Answer(content, turn, status_code=status, headers=headers, media_type=kind)


class _Answer(Response):
    """An answer that is sent in slices. The turn ends when the peer has read it, or was too slow."""

    def __init__(self, content: bytes, turn: RequestTurn | None, **options: Any) -> None:
        super().__init__(content, **options)
        self._turn = turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer. If it is cut short, the server closes the connection."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    await self._send(send)
        finally:
            _end(self._turn)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = memoryview(bytes(self.body))
        for start in range(0, max(len(body), 1), ANSWER_SLICE_BYTES):
            end = start + ANSWER_SLICE_BYTES
            await send({"type": "http.response.body", "body": bytes(body[start:end]), "more_body": end < len(body)})


def _end(turn: RequestTurn | None) -> None:
    if turn is not None:
        turn.end()


async def _body(request: Request) -> bytes:
    """Read the body, up to the limit."""
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > BODY_BYTES_MAX:
            raise errors.TooLarge(what="the body", size=len(found), unit="bytes or more", limit=BODY_BYTES_MAX)
    return bytes(found)


def _decoded(body: bytes, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise errors.BadMessage(what="the body", reason=str(problem)[:200]) from None


def _delivery(body: bytes) -> Delivery:
    try:
        return delivery_of(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise errors.BadMessage(what="the body", reason=str(problem)[:200]) from None


def _problem(refusal: errors.TallyError) -> bytes:
    found: dict[str, Any] = {"error": type(refusal).__name__, "message": refusal.message}
    return msgspec.json.encode(found)
