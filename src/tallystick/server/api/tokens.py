"""Tokens: issue, list and revoke them while the service is the writer of the store."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tallystick import errors
from tallystick.server import tokens
from tallystick.server.access import Need
from tallystick.server.api.parameters import IDEMPOTENT
from tallystick.server.api.reply import CHANGED, READ, change, reply
from tallystick.server.http import bodies, idempotency
from tallystick.server.http.route import HttpRequest, Responses, Routes
from tallystick.server.service import Service
from tallystick.server.tokens import Tokens

routes = Routes("tokens")


class TokenBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a new token allows, for whom, and for how long."""

    kind: Annotated[str, Meta(extra_json_schema={"enum": list(tokens.KINDS)})]
    actor: str
    org: str | None = None
    days: Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": tokens.LIFETIME_DAYS_MAX})] = (
        tokens.LIFETIME_DAYS
    )
    note: str = ""


class RevocationBody(msgspec.Struct, forbid_unknown_fields=True):
    """Why a token is revoked."""

    reason: str = ""


def _book(service: Service) -> Tokens:
    if not isinstance(service.tokens, Tokens):
        raise errors.NothingHere()
    return service.tokens


@routes.get("/v1/tokens", Need.ADMIN, READ)
async def list_tokens(request: HttpRequest) -> Response:
    """Every token that was issued, without its secret."""
    book = _book(request.service)
    await book.fresh()
    now = request.service.store.clock()
    found = [msgspec.to_builtins(token) | {"accepted": token.refusal(now) is None} for token in book.all()]
    return reply({"tokens": found})


@routes.post(
    "/v1/tokens",
    Need.ADMIN,
    Responses(dict[str, Any], CHANGED.refusals, (201,)),
    body=TokenBody,
    headers=IDEMPOTENT,
)
async def issue_token(request: HttpRequest) -> Response:
    """Issue a token. Its secret is in this response and is not stored.

    With an `Idempotency-Key`, the same process gives the same response to the same request for ten minutes. After that
    the response says which token was issued, with `token` null.
    """
    service, body = request.service, await bodies.read_small(request, TokenBody)
    claims = msgspec.structs.asdict(body)
    kind = claims.pop("kind")

    async def act(record: idempotency.Record | None) -> Response:
        command = None if record is None else lambda token: record(_issued(token, None))
        by = request.principal.actor
        issued = await service.in_thread(_book(service).issue, kind, **claims, by=by, command=command)
        return _issued(issued.token, issued.secret)

    return await idempotency.once(request, body, act)


def _issued(token: tokens.Token, secret: str | None) -> Response:
    return reply(msgspec.to_builtins(token) | {"token": secret}, status=201, secret=True)


@routes.post("/v1/tokens/{id}/revoke", Need.ADMIN, CHANGED, body=RevocationBody, headers=IDEMPOTENT)
async def revoke_token(request: HttpRequest, id: str) -> Response:
    """Revoke a token. This process refuses it from this response on, and other processes within a second."""
    service, body = request.service, await bodies.read_small(request, RevocationBody)
    by = request.principal.actor
    return await change(request, body, lambda: service.in_thread(_book(service).revoke, id, reason=body.reason, by=by))
