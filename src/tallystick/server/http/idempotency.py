"""A request with an `Idempotency-Key` takes effect once, on every route that writes.

- A key belongs to the org of the data, the actor, and the endpoint (method and path of the route).
- Requests are compared by a hash of their canonical form: white space and the order of keys make no difference.
- The same request again gets the stored response: status, body and `location`. Another one is `IdempotencyKeyReuse`.
- A refused request stores nothing, and may be sent again.

Appends and new tokens are recorded in the commit of their events. All other requests do no harm if they are done twice
(a running job is joined, a revoked token stays revoked), and are recorded afterwards.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.responses import Response

from tallystick import errors
from tallystick.event import canonical, names
from tallystick.server.http.route import HttpRequest
from tallystick.server.service import Service
from tallystick.store.commit import Transaction
from tallystick.store.idempotency import CommandKey, CommandRecord

HEADER = b"idempotency-key"
REPLAYED = {"idempotent-replayed": "true"}


class StoredResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A response, as the record of its command keeps it."""

    status: int
    body: str
    location: str = ""

    @classmethod
    def of(cls, response: Response) -> StoredResponse:
        """What is kept of a response."""
        return cls(response.status_code, bytes(response.body).decode(), response.headers.get("location", ""))

    def response(self, body: bytes | None = None) -> Response:
        """The response again."""
        headers = REPLAYED | {"cache-control": "no-store"} | ({"location": self.location} if self.location else {})
        return Response(self.body.encode() if body is None else body, self.status, headers, "application/json")


Record = Callable[[Response], CommandRecord]
Act = Callable[[Record | None], Awaitable[Response]]


def key_of(request: HttpRequest) -> str | None:
    """The key of a request, if any."""
    found = [value for name, value in request.scope["headers"] if name == HEADER]
    if not found:
        return None
    try:
        (key,) = found
        return names.check_label("Idempotency-Key", str(key.decode()))
    except ValueError:
        raise errors.InvalidInput(reason="Idempotency-Key must be one header, in UTF-8") from None


def endpoint_of(request: HttpRequest) -> str:
    """The endpoint that a key belongs to."""
    return f"{request.method} {request.scope['route'].path}"


def hash_of(content: Any) -> bytes:
    """The hash by which requests are compared."""
    return hashlib.sha256(canonical.encode_state(msgspec.to_builtins(content))).digest()


def require_same(stored: CommandRecord, key: CommandKey, request_hash: bytes) -> None:
    """Refuse another request with a key that was used."""
    if stored.request_hash != request_hash:
        raise errors.IdempotencyKeyReuse(**msgspec.structs.asdict(key))


async def once(request: HttpRequest, body: Any, act: Act) -> Response:
    """The response of `act`, or the stored one if the same request took effect before with its key.

    If there is a key, `act` gets a function that makes the record. Either it submits the record with its own commit,
    and its response may contain a secret, or it does not call the function, and the record is made here.
    """
    key = key_of(request)
    if key is None:
        return await act(None)
    service, who = request.service, request.principal
    if service.store.log.readonly:
        raise errors.ReadOnly(reason="it was opened for reading, so no key can be recorded")
    claimed = CommandKey(who.org or "", who.actor, endpoint_of(request), key)
    request_hash = hash_of([dict(request.path_params), body])
    made: list[CommandRecord] = []

    def record(response: Response) -> CommandRecord:
        stored = msgspec.json.encode(StoredResponse.of(response))
        made.append(CommandRecord(claimed, request_hash, canonical.encode_state(canonical.decode(stored)), now))
        return made[0]

    turn = service.turns.setdefault(claimed, asyncio.Lock())
    async with turn:
        now = service.store.clock()
        if (stored := await _stored(service, claimed, request_hash)) is not None:
            return stored
        try:
            response = await act(record)
            if made:
                service.secrets.keep(claimed, bytes(response.body))
            else:
                await service.in_thread(_commit, service, record(response))
        except errors.CommandRepeated:  # another process was faster
            if (stored := await _stored(service, claimed, request_hash)) is None:
                raise
            return stored
        return response


async def _stored(service: Service, key: CommandKey, request_hash: bytes) -> Response | None:
    record = await service.in_thread(service.store.log.commands.load, key)
    if record is None:
        return None
    require_same(record, key, request_hash)
    return msgspec.json.decode(record.response, type=StoredResponse).response(service.secrets.find(key))


def _commit(service: Service, record: CommandRecord) -> None:
    outcome = service.store.log.commit([Transaction([], command=record)])[0]
    if isinstance(outcome, errors.TallyError):
        raise outcome
