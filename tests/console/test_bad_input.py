"""Twenty ways to break a console, each inert: what comes from events, addresses or other sites stays text."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tallystick.server.console.sign_in import safe_next

from .conftest import OpenPage
from .serving import Served
from .stock import HOSTILE, SCRIPT

HEADER_FORM = re.compile(r"[\x20-\x7e]*")


def _require_inert(page: Page) -> None:
    """Nothing of what was written ran, no element was made of it, nothing was fetched from elsewhere."""
    assert page.evaluate("window.broken") is None
    assert page.evaluate("({}).broken") is None
    assert (
        page.locator(
            "main img, main iframe, main object, main embed, main script:not([type='application/json'])"
        ).count()
        == 0
    )
    links = page.locator("a").evaluate_all("all => all.map(one => new URL(one.getAttribute('href'), location).origin)")
    assert set(links) == {page.evaluate("location.origin")}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_events_hold_stays_text(name: str, shop_server: Served, open_page: OpenPage) -> None:
    """UI 1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 14, 18: payload and meta of an event are shown, and only as text."""
    page = open_page(f"{shop_server.console}/events/{shop_server.named[f'odd.{name}']}")
    expect(page.locator("pre.json")).not_to_be_empty()
    expect(page.locator("#causes .node")).to_have_count(2)
    _require_inert(page)
    assert SCRIPT in page.locator("dl.facts").first.inner_text()


def test_lists_and_states_of_odd_events_stay_text(shop_server: Served, open_page: OpenPage) -> None:
    """UI 1, 2, 18: the same in the list, in the timeline, in the state and in the changes of a stream."""
    page = open_page(f"{shop_server.console}/events?stream=odd/things")
    expect(page.locator("tbody tr")).to_have_count(len(HOSTILE))
    _require_inert(page)
    page.goto(f"{shop_server.console}/streams/odd/things")
    expect(page.locator("#state-json")).to_contain_text(SCRIPT)
    page.locator("#at").focus()
    page.keyboard.press("Home")
    expect(page.locator("#changes")).to_contain_text(SCRIPT)
    _require_inert(page)


def test_the_live_tail_shows_payloads_as_text(shop_server: Served, open_page: OpenPage) -> None:
    """UI 1, 2: what arrives while the page is open is text as well."""
    page = open_page(f"{shop_server.console}/events?type=odd.live")
    expect(page.locator("#live-status")).to_contain_text("Live")
    shop_server.append("odd/live", ("odd.live", {"a": SCRIPT, "b": "<img src=x onerror=window.broken=true>"}))
    expect(page.locator("tbody tr")).to_contain_text("<img src=x")
    _require_inert(page)


def test_characters_that_turn_or_hide_text_are_shown(shop_server: Served, open_page: OpenPage) -> None:
    """UI 5, 6: a right-to-left override and a zero-width space are shown by their numbers."""
    page = open_page(f"{shop_server.console}/events/{shop_server.named['odd.turned']}")
    text = page.locator("pre.json").inner_text()
    assert "‹U+202E›fdp.exe" in text
    assert "pay‹U+200B›pal" in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f]", page.locator("body").inner_text())


@pytest.mark.parametrize("name", ["early", "late"])
def test_times_at_the_edges_are_shown(name: str, shop_server: Served, open_page: OpenPage) -> None:
    """UI 10: the first and the last time that an event can have."""
    page = open_page(f"{shop_server.console}/events/{shop_server.named[f'odd.{name}']}")
    expect(page.locator("main time").first).to_contain_text({"early": "1970-01-01", "late": "2262-04-11"}[name])


@pytest.mark.parametrize(
    "query",
    [
        "type=(a%2B)%2B%24",
        "type=%3Cscript%3Ewindow.broken%3Dtrue%3C%2Fscript%3E",
        "stream=..%2F..%2Fetc",
        "org=%E2%80%AE",
        "since=0000-01-01",
        "since=10000-01-01",
        "till=-1",
        "kind=%22%3E%3Cimg+src%3Dx+onerror%3Dwindow.broken%3Dtrue%3E",
    ],
)
def test_a_filter_is_never_a_pattern_nor_markup(query: str, shop_server: Served, open_page: OpenPage) -> None:
    """UI 10, 20: expressions, tags and impossible dates are refused next to their field, at once."""
    page = open_page(f"{shop_server.console}/events?{query}", expect="422")
    expect(page.get_by_role("alert").filter(has_text="cannot be used")).to_be_visible()
    _require_inert(page)


@pytest.mark.parametrize(
    "path",
    [
        "/streams/x/%3Cscript%3E",
        "/events/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/runs/..%2f..%2fx",
        "/streams/a/b%00",
        "/no",
        "/events/%C0%AE",
    ],
)
def test_an_address_that_leads_nowhere_says_so(path: str, shop_server: Served, open_page: OpenPage) -> None:
    """UI 1: the page of a missing address repeats nothing of the address, and shows the way back."""
    page = open_page(shop_server.console + path, expect="404")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    expect(page.get_by_role("link", name="Overview").first).to_be_visible()
    _require_inert(page)


@pytest.mark.parametrize("query", ["limit=100000", "before=99999999999", "before=-5", "before=0"])
def test_no_list_grows_beyond_a_page(query: str, shop_server: Served, open_page: OpenPage) -> None:
    """UI 8: whatever is asked for, a list has fifty lines at most."""
    page = open_page(f"{shop_server.console}/events?{query}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Events")
    assert page.locator("tbody tr").count() <= 50


@pytest.mark.parametrize("name", ["picture", "name", "script", "cells"])
def test_a_payload_is_downloaded_and_never_opened(name: str, shop_server: Served) -> None:
    """UI 11, 12, 13: a download, under a name that no event chose, with headers of one line each."""
    answer = _get(f"{shop_server.console}/events/{shop_server.named[f'odd.{name}']}/payload")
    assert answer["content-type"] == "application/octet-stream"
    assert answer["x-content-type-options"] == "nosniff"
    assert re.fullmatch(r'attachment; filename="[0-9a-f]{32}\.json"', answer["content-disposition"])
    assert "set-cookie" not in answer
    assert all(HEADER_FORM.fullmatch(value) for value in answer.values())


def test_no_other_site_can_frame_the_console(shop_server: Served, open_page: OpenPage) -> None:
    """UI 15: a page that frames the console gets an empty frame."""
    page = open_page("about:blank", expect="frame")
    page.set_content(f"<iframe src='{shop_server.console}' id=frame></iframe>")
    page.wait_for_load_state("networkidle")
    frame = page.frames[-1]
    assert "Tallystick" not in frame.content()


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/console//evil.example",
        "javascript:alert(1)",
        "/v1/events",
        "/console\\@evil",
        "/consolevil",
        "/console/\r\nSet-Cookie: a=b",
        "",
    ],
)
def test_signing_in_leads_only_to_the_console(target: str) -> None:
    """UI 17: `next` leads to a page of the console, or to the first one."""
    assert safe_next(target) == "/console"


def test_signing_in_leads_back_to_where_one_was() -> None:
    """A page of the console with its query is kept."""
    assert safe_next("/console/events?type=a.b&since=2026-01-01") == "/console/events?type=a.b&since=2026-01-01"


@pytest.mark.parametrize(
    "path", ["/data/integrity/verify", "/data/projections/Spending/rebuild", "/data/retention/trial", "/logout"]
)
@pytest.mark.parametrize("origin", ["https://evil.example", "null", None])
def test_another_site_can_change_nothing(path: str, origin: str | None, shop_server: Served) -> None:
    """HTTP 5: a form that the console's own page did not send is refused, also where nobody has to sign in."""
    place = urlsplit(shop_server.console)
    connection = http.client.HTTPConnection(place.netloc, timeout=30)
    headers = {"content-type": "text/plain"} | ({"origin": origin} if origin else {})
    connection.request("POST", f"/console{path}", body="preset=reach", headers=headers)
    answer = connection.getresponse()
    connection.close()
    assert answer.status == 403


def _get(address: str) -> dict[str, str]:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return {name.lower(): value for name, value in answer.headers.items()}


def _directives(policy: str) -> dict[str, set[str]]:
    parts = [part.split() for part in policy.split(";")]
    return {name: set(values) for name, *values in parts}


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/events",
        "/events?type=7",
        "/streams/order/1003",
        "/integrity",
        "/nothing",
        "/login",
        "/static/console.js",
        "/static/nothing",
        "/data/overview",
        "/data/jobs/none",
        "/data/tail?type=7",
    ],
)
def test_every_answer_has_a_strict_policy(path: str, shop_server: Served) -> None:
    """UI 15: pages, data, files and failures: nothing inline, nothing from elsewhere, no frames, no sniffing."""
    try:
        headers = _get(shop_server.console + path)
    except urllib.error.HTTPError as refusal:
        headers = {name.lower(): value for name, value in refusal.headers.items()}
        refusal.close()
    policy = _directives(headers["content-security-policy"])
    assert policy["default-src"] == {"'none'"}
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == {"'self'"}
    assert policy["frame-ancestors"] == policy["base-uri"] == {"'none'"}
    assert headers["x-content-type-options"] == "nosniff"
    assert quote("unsafe") not in headers["content-security-policy"]
