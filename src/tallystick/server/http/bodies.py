"""Bodies of requests: of the right type, not too large, not too slow, and strict JSON."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect

from tallystick import errors
from tallystick.event import canonical, limits
from tallystick.server.gate import Admission
from tallystick.server.http.route import HttpRequest

WHOLE = "tally.whole"  # in the scope of a request whose body has arrived
NODES_MAX = 2 * limits.NODES_MAX
NODE_BYTES = 64  # what a decoded value takes in addition to its text, approximately
INLINE_BYTES_MAX = 128 << 10  # larger bodies are decoded in a thread, because all other requests would wait for them

Shape = TypeVar("Shape")


def expect_json(request: HttpRequest) -> int | None:
    """Refuse a body whose headers do not say plain JSON. Returns its length, if they say it."""
    length: int | None = None
    kind = b""
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            kind = value
        elif name == b"content-length":
            length = int(value)
        elif name == b"content-encoding" and value.lower() != b"identity":
            raise errors.BodyRefused(reason="it has a content encoding")
    if kind.partition(b";")[0].strip().lower() != b"application/json":
        raise errors.BodyRefused(reason="its type is not application/json")
    return length


async def read(request: HttpRequest, admission: Admission, length: int | None, shape: type[Shape]) -> tuple[Shape, int]:
    """The decoded body and its size in bytes.

    A body that is too large, arrives too slowly, is not strict JSON or has another shape is refused by name.
    """
    body = await _received(request, admission, length)
    return await _decode(body, shape, admission), len(body)


async def _received(request: HttpRequest, admission: Admission, length: int | None) -> bytes:
    limit, seconds = request.service.limits.body_bytes_max, request.service.limits.body_seconds
    if length is not None and length > limit:
        raise errors.BodyTooLarge(limit=limit)
    admission.require_room(length or 0)  # refuse what would not fit before it arrives; it takes room only as it arrives
    if WHOLE in request.scope:
        return await _whole(request, admission, limit)
    try:
        async with asyncio.timeout(seconds):
            return await _whole(request, admission, limit)
    except TimeoutError:
        raise errors.BodyTooSlow(seconds=seconds) from None


async def _whole(request: HttpRequest, admission: Admission, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        if len(body) + len(piece) > limit:
            raise errors.BodyTooLarge(limit=limit)
        admission.grow(len(piece))
        is_last = not message.get("more_body")
        if is_last and not body:
            return bytes(piece)
        body += piece
        if is_last:
            return bytes(body)


async def _decode(body: bytes, shape: type[Shape], admission: Admission) -> Shape:
    nodes = body.count(b",") + body.count(b"[") + body.count(b"{")
    if nodes > NODES_MAX:
        raise errors.TooLarge(what="the body", size=nodes, unit="values or more", limit=NODES_MAX)
    admission.grow(nodes * NODE_BYTES)
    if len(body) <= INLINE_BYTES_MAX:
        return _decoded(body, shape)
    return await asyncio.to_thread(_decoded, body, shape)


def _decoded(body: bytes, shape: type[Shape]) -> Shape:
    value: Any = canonical.parse(body, what="body", bytes_max=len(body))
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as problem:
        raise errors.InvalidInput(reason=f"the body does not fit: {problem}") from None


async def read_small(request: HttpRequest, shape: type[Shape]) -> Shape:
    """The body of a request; a missing body is an empty object."""
    if request.headers.get("content-length") in (None, "0") and "transfer-encoding" not in request.headers:
        return _decoded(b"{}", shape)
    length = expect_json(request)
    with request.service.appends.enter() as admission:
        return (await read(request, admission, length, shape))[0]
