"""Tokens: issue, list, revoke. The way to do it while the service holds the store."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from tallystick import errors
from tallystick.server import tokens
from tallystick.server.access import Admin
from tallystick.server.api import shapes
from tallystick.server.api.order import BODY_REFUSALS, answer, order, read_answers
from tallystick.server.api.parameters import service_of
from tallystick.server.http.idempotency import Record, once
from tallystick.server.service import Service
from tallystick.server.tokens import Tokens

router = APIRouter(tags=["tokens"])


class Issuing(msgspec.Struct, forbid_unknown_fields=True):
    """What a new token is to stand for."""

    kind: str
    actor: str
    org: str | None = None
    days: float = tokens.LIFETIME_DAYS
    note: str = ""


class Revoking(msgspec.Struct, forbid_unknown_fields=True):
    """Why."""

    reason: str = ""


_TEXT = {"type": "string"}
_ISSUING = {
    "type": "object",
    "additionalProperties": False,
    "required": ["kind", "actor"],
    "properties": {
        "kind": {"enum": list(tokens.KINDS)},
        "actor": _TEXT,
        "org": {"anyOf": [_TEXT, {"type": "null"}]},
        "days": {"type": "number", "exclusiveMinimum": 0, "maximum": tokens.LIFETIME_DAYS_MAX},
        "note": _TEXT,
    },
}
_REVOKING = {"type": "object", "additionalProperties": False, "properties": {"reason": _TEXT}}
_REFUSALS = (401, 403, 404, 409, 422, 429, 501, 503, 507, *BODY_REFUSALS)


def _book(service: Service) -> Tokens:
    if not isinstance(service.tokens, Tokens):
        raise errors.NothingHere()
    return service.tokens


@router.get("/v1/tokens", responses=read_answers())
async def list_tokens(request: Request, who: Admin) -> Response:
    """Every token that was issued, without its secret."""
    book = _book(service_of(request))
    await book.fresh()
    now = service_of(request).store.clock()
    found = [msgspec.to_builtins(token) | {"accepted": token.refusal(now) is None} for token in book.all()]
    return answer({"tokens": found})


@router.post(
    "/v1/tokens",
    status_code=201,
    openapi_extra=shapes.body(_ISSUING) | shapes.IDEMPOTENT,
    responses=shapes.answers(201, shapes.ANY_OBJECT, *_REFUSALS),
)
async def issue_token(request: Request, who: Admin) -> Response:
    """Issue a token. Its secret is in this answer and in no store.

    Under an `Idempotency-Key`, the same request within ten minutes gets the same answer from the same process; after
    that the answer says which token was issued, with `token` null.
    """
    service, asked = service_of(request), await order(request, Issuing)
    given = msgspec.structs.asdict(asked)
    kind = given.pop("kind")

    async def act(record: Record | None) -> Response:
        command = None if record is None else lambda token: record(_issued(token, None))
        issued = await service.in_thread(_book(service).issue, kind, **given, by=who.actor, command=command)
        return _issued(issued.token, issued.secret)

    return await once(request, who, asked, act)


def _issued(token: tokens.Token, secret: str | None) -> Response:
    return answer(msgspec.to_builtins(token) | {"token": secret}, status=201, secret=True)


@router.post(
    "/v1/tokens/{id}/revoke",
    openapi_extra=shapes.body(_REVOKING) | shapes.IDEMPOTENT,
    responses=shapes.answers(200, shapes.ANY_OBJECT, *_REFUSALS),
)
async def revoke_token(id: str, request: Request, who: Admin) -> Response:
    """Revoke a token: from this answer on it is refused here, and within a second elsewhere."""
    service, asked = service_of(request), await order(request, Revoking)

    async def act(_: Record | None) -> Response:
        token = await service.in_thread(_book(service).revoke, id, reason=asked.reason, by=who.actor)
        return answer(msgspec.to_builtins(token))

    return await once(request, who, asked, act)
