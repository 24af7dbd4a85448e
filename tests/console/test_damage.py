"""A damaged log is shown as damaged: on every page, with the hole, the chain around it, and what to do."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from .conftest import OpenPage
from .serving import Served


def test_every_page_says_that_the_log_is_damaged(damaged_server: Served, open_page: OpenPage) -> None:
    """Settled 15: every page reports the damage and where to look, as soon as it was found."""
    page = open_page(damaged_server.console)
    expect(page.get_by_role("alert").filter(has_text="This log is damaged.")).to_be_visible()
    for path in ("/streams", "/projections", "/runs"):
        page.goto(damaged_server.console + path)
        expect(page.get_by_role("alert").filter(has_text="This log is damaged.")).to_be_visible()
    page.goto(damaged_server.console)
    expect(page.locator("#health .chip.bad")).to_have_text("log")
    page.get_by_role("link", name="See the damage").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Integrity")


def test_the_chain_is_drawn_around_the_hole(damaged_server: Served, open_page: OpenPage) -> None:
    """LH-19: the hole is between its neighbours, and the chain is broken on both sides of it."""
    page = open_page(f"{damaged_server.console}/integrity")
    chain = page.locator(".chain").first
    expect(chain.locator("li")).to_have_count(5)
    expect(chain.locator("li.bad")).to_have_count(1)
    expect(chain.locator("li.bad")).to_contain_text("damaged position")
    expect(chain.locator("li.breaks")).to_have_count(2)


def test_verification_names_what_is_wrong(damaged_server: Served, open_page: OpenPage) -> None:
    """LH-17: verifying a damaged log ends with a list of problems and the next step, not with a green light."""
    page = open_page(f"{damaged_server.console}/integrity")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#damaged")).to_contain_text("tally doctor")
    expect(page.get_by_role("heading", name="Problems")).to_be_visible()
    expect(page.get_by_text("No problems found.")).to_have_count(0)


def test_a_list_passes_over_the_hole_and_says_so(damaged_server: Served, open_page: OpenPage) -> None:
    """Settled 15: the events around the hole are listed, the hole is named between them."""
    page = open_page(f"{damaged_server.console}/events?kind=order")
    for _ in range(20):
        if page.get_by_text(re.compile("Positions .* are damaged")).count():
            break
        page.locator("a[rel=next]").click()
        page.wait_for_load_state()
    expect(page.get_by_text(re.compile("Positions .* are damaged")).first).to_be_visible()


def test_a_pruned_stream_says_where_it_begins(damaged_server: Served, open_page: OpenPage) -> None:
    """EVT-03: the slider starts after the cut, with a state from the snapshot there."""
    page = open_page(f"{damaged_server.console}/streams/order/1002")
    expect(page.locator("main")).to_contain_text("the first 2 were pruned")
    page.locator("#at").focus()
    page.keyboard.press("Home")
    expect(page.locator("#state-json")).to_contain_text('"status": "packed"')
    expect(page.locator("#state-from")).to_contain_text("from a snapshot")


def test_an_erased_payload_is_called_erased(damaged_server: Served, open_page: OpenPage) -> None:
    """EVT-14: the page of an erased event says so, and that its link is still valid."""
    page = open_page(f"{damaged_server.console}/streams/payment/5")
    page.get_by_role("link", name="payment.taken").click()
    expect(page.get_by_text("The payload was erased on purpose")).to_be_visible()
    expect(page.get_by_text("erased, so it cannot be compared")).to_be_visible()
    expect(page.get_by_text("holds", exact=True)).to_have_count(1)
