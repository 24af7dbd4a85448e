"""A community: its status, and the endpoints for its peers, which sign their requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tallystick import errors
from tallystick.server.access import Need
from tallystick.server.api.reply import READ, reply
from tallystick.server.http.route import HttpRequest, Responses, Routes

if TYPE_CHECKING:
    from tallystick.server.gossip import Community

routes = Routes("community")

PULLED = Responses(dict[str, Any], (403, 404, 429, 503))
EXCHANGED = Responses(dict[str, Any], (400, 403, 404, 408, 413, 429, 503))


class _FromCommunity(Response):
    """A response that the community sends itself."""

    def __init__(self, community: Community) -> None:
        super().__init__()
        self._community = community

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._community.answer(scope, receive, send)


def _community(request: HttpRequest) -> Community:
    community = request.service.operations.community
    if community is None:
        raise errors.NothingHere()
    return community


@routes.get("/v1/community", Need.ADMIN, READ)
async def read_community(request: HttpRequest) -> Response:
    """Members, peers, the last round with each peer, and where the node differs from others."""
    community = _community(request)
    return reply(await request.service.run(community.status))


@routes.get("/sync/v1/heads", Need.OPEN, PULLED)
@routes.get("/sync/v1/snapshot", Need.OPEN, PULLED)
@routes.post("/sync/v1/events", Need.OPEN, EXCHANGED)
@routes.post("/sync/v1/fetch", Need.OPEN, EXCHANGED)
@routes.post("/sync/v1/reconcile", Need.OPEN, EXCHANGED)
async def gossip(request: HttpRequest) -> Response:
    """What peers of a community ask each other. Requests and responses are signed."""
    return _FromCommunity(_community(request))
