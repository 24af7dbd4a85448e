"""The community page: members, peers, the last round with each and what it moved, and what is disputed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from tallystick.server.console import display, render, route
from tallystick.server.http.route import Request

if TYPE_CHECKING:
    from tallystick.server.gossip import Community

MEMBERS_SHOWN = 200
ROLES = {1: "member", 2: "admin", 3: "owner"}

pages = route.pages()


@pages.get("/community")
def show_community(request: Request) -> Response:
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
    """Members, the highest rank first, with how far each one's feed goes here."""
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
    """A peer and the last round with it: what it moved is in what the two differed."""
    blank = {"url": peer["url"], "key": peer["key"], "received": "", "sent": ""}
    if "at" not in peer:
        return blank | {"when": "not yet", "tone": "warn", "says": "The first round is still to come."}
    when = display.ago(peer["at"], now)
    if "failed" in peer:
        return blank | {"when": when, "tone": "bad", "says": peer["failed"]}
    sent, received = peer["result"]["sent_count"], peer["result"]["received_count"]
    says = f"{sent + received:,} events were on one side alone; now they are on both."
    same = "None: both had the same."
    return blank | {
        "when": when,
        "tone": "ok",
        "sent": sent,
        "received": received,
        "says": says if sent + received else same,
    }
