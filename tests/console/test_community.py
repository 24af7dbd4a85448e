"""The community page, on a node that gossips with another."""

from __future__ import annotations

from playwright.sync_api import expect

from .conftest import OpenPage
from .serving import Served


def test_members_peers_and_the_last_round_are_shown(community_server: Served, open_page: OpenPage) -> None:
    """COM-09: the members, which peer was called, and what only one side had before the round."""
    page = open_page(f"{community_server.console}/community")
    peers = page.locator("section").filter(has=page.get_by_role("heading", name="Peers"))
    for _ in range(100):
        if peers.locator(".chip.ok").count():
            break
        page.reload()
    expect(peers.locator(".chip.ok")).to_have_count(1)
    members = page.locator("section").filter(has=page.get_by_role("heading", name="Members"))
    expect(members.locator("tbody tr")).to_have_count(2)
    expect(members.locator("tr").filter(has_text="this node")).to_contain_text(community_server.named["node"])
    expect(members.locator("tr").filter(has_text="owner")).to_have_count(1)


def test_a_store_of_no_community_says_how_to_found_one(shop_server: Served, open_page: OpenPage) -> None:
    """An empty page names the next command."""
    page = open_page(f"{shop_server.console}/community")
    expect(page.locator(".empty")).to_contain_text("tally community init")
