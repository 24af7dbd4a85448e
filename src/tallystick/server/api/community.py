"""A community: how it stands, and the endpoints of its peers, who sign what they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from tallystick import errors
from tallystick.server.access import Admin, Anybody
from tallystick.server.api import shapes
from tallystick.server.api.order import answer, read_answers
from tallystick.server.api.parameters import service_of

if TYPE_CHECKING:
    from tallystick.server.gossip import Community

router = APIRouter(tags=["community"])


class _Handed(Response):
    """An answer that the community gives itself."""

    def __init__(self, community: Community) -> None:
        super().__init__()
        self._community = community

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._community.answer(scope, receive, send)


def _community(request: Request) -> Community:
    community = service_of(request).operations.community
    if community is None:
        raise errors.NothingHere()
    return community


@router.get("/v1/community", responses=read_answers())
async def read_community(request: Request, who: Admin) -> Response:
    """Members, peers, the last round with each, and in what the node differs."""
    community = _community(request)
    return answer(await service_of(request).run(community.told))


@router.get("/sync/v1/heads", responses=shapes.answers(200, shapes.ANY_OBJECT, 403, 404, 429, 503))
@router.get("/sync/v1/snapshot", responses=shapes.answers(200, shapes.ANY_OBJECT, 403, 404, 429, 503))
@router.post("/sync/v1/events", responses=shapes.answers(200, shapes.ANY_OBJECT, 400, 403, 404, 408, 413, 429, 503))
@router.post("/sync/v1/fetch", responses=shapes.answers(200, shapes.ANY_OBJECT, 400, 403, 404, 408, 413, 429, 503))
@router.post("/sync/v1/reconcile", responses=shapes.answers(200, shapes.ANY_OBJECT, 400, 403, 404, 408, 413, 429, 503))
async def gossip(request: Request, who: Anybody) -> Response:
    """What peers of a community ask each other; requests and answers are signed."""
    return _Handed(_community(request))
