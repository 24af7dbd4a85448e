"""Every page in a real browser, over a real server, with a store as a shop has it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from .conftest import OpenPage
from .serving import Served

PAGES = {
    "": "Overview",
    "/events": "Events",
    "/streams": "Streams",
    "/streams/order/1003": "order/1003",
    "/projections": "Projections",
    "/snapshots": "Snapshots and retention",
    "/integrity": "Integrity",
    "/runs": "Runs",
    "/runs/week-46": "week-46",
    "/community": "Community",
}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_itself_without_a_complaint(path: str, shop_server: Served, open_page: OpenPage) -> None:
    """CP-13, CP-14: each page has one heading, one current entry in the menu, and nothing that the policy blocked."""
    page = open_page(shop_server.console + path)
    expect(page.get_by_role("heading", level=1)).to_have_text(PAGES[path])
    expect(page.locator(".rail [aria-current=page]")).to_have_count(1)
    expect(page.locator("#trouble")).to_be_hidden()


def test_no_page_is_wider_than_a_phone(shop_server: Served, open_page: OpenPage) -> None:
    """On a phone only drawings in their own frame scroll sideways."""
    page = open_page(shop_server.console, phone=True)
    for path in [*PAGES, f"/events/{shop_server.named['placed']}", f"/events/{shop_server.named['odd.script']}"]:
        page.goto(shop_server.console + path)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} pixels too wide"


def test_the_overview_moves_with_the_log(shop_server: Served, open_page: OpenPage) -> None:
    """LH-17, CP-14: the head, the stick and the lag of projections follow what is appended, without a reload."""
    page = open_page(shop_server.console)
    placed = {"customer": "customer-1", "items": ["tin"], "cents": 5}
    position = shop_server.append("order/overview", *[("order.placed", placed)] * 5)
    expect(page.locator("dd[data-show=head]")).to_have_text(
        re.compile(rf"^({position:,}|{position + 1:,}|{position + 2:,})$")
    )
    expect(page.locator("#stick .cut").first).to_be_attached()
    expect(page.locator("[data-projection='projection Spending'] [data-lag]")).to_have_text("0")
    expect(page.locator("#health .chip.ok")).not_to_have_count(0)


def test_the_live_tail_shows_what_is_appended_meanwhile(shop_server: Served, open_page: OpenPage) -> None:
    """A new event appears at the top of the list as soon as it is durable, and the page is not loaded again."""
    page = open_page(f"{shop_server.console}/events")
    expect(page.locator("#live-status")).to_contain_text("Live")
    page.evaluate("window.same = true")
    position = shop_server.append("order/tail", ("order.noted", {"text": "rings twice"}))
    row = page.locator(f"tr[data-position='{position}']")
    expect(row).to_contain_text("rings twice")
    expect(row.get_by_role("link", name="order.noted")).to_be_visible()
    assert page.evaluate("window.same")


def test_the_live_tail_passes_the_filter(shop_server: Served, open_page: OpenPage) -> None:
    """Only events that pass the filter appear, whatever else is appended."""
    page = open_page(f"{shop_server.console}/events?type=order.wanted")
    expect(page.locator("#live-status")).to_contain_text("Live")
    shop_server.append("order/tail", ("order.unwanted", {}), ("order.wanted", {"yes": 1}))
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("order.wanted")


def test_events_are_filtered_by_what_is_typed(shop_server: Served, open_page: OpenPage) -> None:
    """CP-09: the filter form narrows the list, and clearing it brings everything back."""
    page = open_page(f"{shop_server.console}/events")
    page.get_by_label("Type").fill("payment.taken")
    page.get_by_label("Stream", exact=True).fill("payment/7")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("payment/7")
    page.get_by_role("link", name="Clear").click()
    expect(page.locator("tbody tr").nth(20)).to_be_visible()


def test_a_filter_that_cannot_be_meant_says_what_to_type(shop_server: Served, open_page: OpenPage) -> None:
    """A wrong name is marked in its field, with the form that it must have."""
    page = open_page(f"{shop_server.console}/events?type=7up", expect="422")
    expect(page.get_by_role("alert").filter(has_text="cannot be used")).to_contain_text("event type")
    expect(page.get_by_label("Type")).to_have_attribute("aria-invalid", "true")


def test_older_events_are_reached_by_cursor(shop_server: Served, open_page: OpenPage) -> None:
    """CP-09: page after page, each event once, in descending order, down to the first."""
    page = open_page(f"{shop_server.console}/events?kind=order")
    seen: list[int] = []
    for _ in range(40):
        seen += [int(each) for each in page.locator("td.num").all_inner_texts()]
        older = page.locator("a[rel=next]")
        if not older.count():
            break
        older.click()
        page.wait_for_load_state()
    assert seen == sorted(set(seen), reverse=True)
    assert seen[-1] == 1
    assert len(seen) >= 240


def test_an_event_is_drawn_between_its_causes_and_consequences(shop_server: Served, open_page: OpenPage) -> None:
    """LH-03: the graph leads from the cause over the event to its consequences, and each box is a link."""
    page = open_page(f"{shop_server.console}/events/{shop_server.named['paid']}")
    expect(page.locator("pre.json")).to_contain_text('"cents"')
    expect(page.get_by_text("holds", exact=True)).to_have_count(2)
    graph = page.locator("#causes")
    expect(graph.locator(".node.self .name")).to_have_text("payment.taken")
    names = graph.locator(".name").all_text_contents()
    assert names[:3] == ["order.placed", "order.item_added", "payment.taken"]
    assert sorted(names[3:]) == ["order.packed", "order.sent", "stock.taken"]
    graph.get_by_role("link", name=re.compile("order.sent")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("order.sent")


def test_the_slider_shows_the_state_after_any_event(shop_server: Served, open_page: OpenPage) -> None:
    """EVT-02: with the arrow keys through the states of a stream, with what each event changed."""
    page = open_page(f"{shop_server.console}/streams/order/1003")
    state = page.locator("#state-json")
    expect(state).to_contain_text('"status": "sent"')
    page.locator("#at").focus()
    page.keyboard.press("ArrowLeft")
    expect(state).to_contain_text('"status": "packed"')
    expect(page.locator("#changes .changed")).to_contain_text('"placed"')
    expect(page.locator("#changes .added")).to_contain_text("parcel")
    page.keyboard.press("Home")
    expect(state).to_contain_text('"status": "placed"')
    expect(page.locator("#changed-by")).to_have_text("order.placed")
    page.locator("#reducer").select_option("merge")
    expect(state).not_to_contain_text("status")
    page.get_by_role("button", name="Show the state after event 2").click()
    expect(page.locator("#changes")).to_contain_text("postcard")


def test_a_rebuild_shows_its_progress_until_it_is_done(shop_server: Served, open_page: OpenPage) -> None:
    """CP-08, CP-13: a button begins it, its progress is shown, and its end is reported."""
    page = open_page(f"{shop_server.console}/projections")
    article = page.get_by_role("article", name="Spending")
    expect(article.get_by_text("epoch")).to_be_visible()
    before = article.get_by_text("epoch").inner_text()
    shop_server.pace.write_text("0.02")
    try:
        page.get_by_role("button", name="Rebuild").click()
        expect(page.locator("#job-1")).to_have_attribute("data-state", "running")
        expect(page.locator("#job-1 [data-said]")).to_contain_text("running")
    finally:
        shop_server.pace.unlink()
    expect(page.get_by_text("Last rebuild done")).to_be_visible()
    assert article.get_by_text("epoch").inner_text() != before


def test_a_trial_of_retention_says_what_would_go_and_why_not(shop_server: Served, open_page: OpenPage) -> None:
    """LH-14, EVT-12: covered streams would be pruned, others are kept with the reason, and nothing is changed."""
    page = open_page(f"{shop_server.console}/snapshots")
    expect(page.get_by_text("protected")).to_have_count(1)
    page.get_by_role("button", name="Dry run").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="order/1005", exact=True))
    expect(row.filter(has_text="pruned")).to_have_count(1)
    kept = page.get_by_role("row").filter(has_text="has no snapshot of it")
    expect(kept.first).to_contain_text("kept")
    expect(page.get_by_text("Nothing was ever pruned")).to_be_visible()


def test_verification_shows_progress_and_that_everything_holds(shop_server: Served, open_page: OpenPage) -> None:
    """LH-17: the whole log is verified in the background, and the result is shown."""
    page = open_page(f"{shop_server.console}/integrity")
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_text("No problems found.")).to_be_visible()
    expect(page.get_by_text("Verified")).to_be_visible()


def test_the_graph_of_a_run_is_updated_while_it_runs(shop_server: Served, open_page: OpenPage) -> None:
    """RUN-10: the graph shows the state of every node, and changes with the events of the run, without a reload."""
    finished = open_page(f"{shop_server.console}/runs/week-46")
    expect(finished.locator(".node.failed .name")).to_have_text("report")
    expect(finished.locator(".node.finished")).to_have_count(3)
    expect(finished.locator("#run-nodes")).to_contain_text("the printer is out of ink")
    page = open_page(f"{shop_server.console}/runs/week-47")
    expect(page.locator(".node.finished .name")).to_have_text(["collect"])
    shop_server.finish_run()
    expect(page.locator(".node.failed .name")).to_have_text("report")
    expect(page.locator("#run-state")).to_have_text("failed")
