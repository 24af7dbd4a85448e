"""The community page: members, peers, the last round with each peer and what it transferred, and disputes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from tallystick.server.console import display, render, route
from tallystick.server.http.route import HttpRequest

if TYPE_CHECKING:
    from tallystick.server.gossip import Community

MEMBERS_SHOWN = 200
ROLES = {1: "member", 2: "admin", 3: "owner"}

pages = route.pages()


@pages.get("/community")
def show_community(request: HttpRequest) -> Response:
    """The community that this service takes part in, if any."""
    service = request.service
    found = service.operations.community
    facts = _facts(found, service.store.clock()) if found is not None else None
    return render.page(request, "community.html", here="/community", title="Community", community=facts)


def _facts(community: Community, now: int) -> dict[str, Any]:
    facts = community.status()
    members = _members(community, facts)
    return facts | {
        "members": members[:MEMBERS_SHOWN],
        "count": len(members),
        "unshown": max(0, len(members) - MEMBERS_SHOWN),
        "forks": sorted(facts["forks"].items()),
        "peers": [_peer(peer, now) for peer in facts["peers"]],
    }


def _members(community: Community, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Members, the highest rank first, with the end of each one's feed here."""
    tips = community.log.replica.tips()
    found = []
    for node, rank in sorted(facts["members"].items(), key=lambda item: (-item[1], item[0])):
        tip = tips.get(node)
        found.append(
            {
                "node": node,
                "role": ROLES[rank],
                "tone": "live" if rank > 1 else "",
                "self": node == facts["node"],
                "seq": tip.seq if tip is not None else 0,
                "lamport": tip.lamport if tip is not None else 0,
            }
        )
    return found


def _peer(peer: dict[str, Any], now: int) -> dict[str, Any]:
    """A peer and the last round with it. What the round transferred is the difference of the two."""
    blank = {"url": peer["url"], "key": peer["key"], "received": "", "sent": ""}
    if "at" not in peer:
        return blank | {"when": "not yet", "tone": "warn", "says": "There was no round yet."}
    when = display.ago(peer["at"], now)
    if "failed" in peer:
        return blank | {"when": when, "tone": "bad", "says": peer["failed"]}
    sent, received = peer["result"]["sent_count"], peer["result"]["received_count"]
    says = f"{sent + received:,} events were on one side only. Now both have them."
    same = "None: both had the same."
    return blank | {
        "when": when,
        "tone": "ok",
        "sent": sent,
        "received": received,
        "says": says if sent + received else same,
    }
