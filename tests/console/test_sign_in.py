"""Signing in: an operator's token in a cookie that only the console sees, until it is given back."""

from __future__ import annotations

import re
import urllib.error
import urllib.parse
import urllib.request

import pytest
from playwright.sync_api import Page, expect

from .conftest import OpenPage
from .serving import Served


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection."""

    def redirect_request(self, *_: object) -> None:  # type: ignore[override]
        return None


def _sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_a_page_asks_for_a_token_and_leads_back(guarded_server: Served, open_page: OpenPage) -> None:
    """CP-10: a caller who is not signed in is asked to, and then gets the page that they asked for."""
    page = open_page(f"{guarded_server.console}/streams?from=order/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    _sign_in(page, guarded_server.named["admin"])
    expect(page).to_have_url(f"{guarded_server.console}/streams?from=order/")
    expect(page.locator(".store")).to_contain_text("night-watch")


def test_the_cookie_is_kept_from_scripts_and_other_sites(guarded_server: Served, open_page: OpenPage) -> None:
    """UI 19: HttpOnly, SameSite=Strict, and only for /console."""
    page = open_page(guarded_server.console, expect="401")
    _sign_in(page, guarded_server.named["admin"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/console")
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("fetch('/v1/streams').then(answer => answer.status)") == 401


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_behind_a_proxy_the_cookie_is_only_for_tls(guarded_server: Served, scheme: str) -> None:
    """UI 19: behind a proxy the service sees plain HTTP; the origin shows whether the browser uses TLS."""
    body = urllib.parse.urlencode({"token": guarded_server.named["admin"]}).encode()
    request = urllib.request.Request(f"{guarded_server.console}/login", body)
    request.add_header("Origin", f"{scheme}://{urllib.parse.urlsplit(guarded_server.console).netloc}")
    opener = urllib.request.build_opener(_Stay)
    with pytest.raises(urllib.error.HTTPError) as caught:
        opener.open(request, timeout=10)
    with caught.value as answer:
        cookie = str(answer.headers["set-cookie"]).lower()
    assert "tally" in cookie
    assert ("; secure" in cookie) == (scheme == "https")


@pytest.mark.parametrize("kind", ["wrong", "tenant", "empty"])
def test_only_an_operator_can_sign_in(kind: str, guarded_server: Served, open_page: OpenPage) -> None:
    """CP-10: a token that is unknown or a tenant's is refused with the reason and the next step, without a cookie."""
    page = open_page(f"{guarded_server.console}/login", expect="401")
    _sign_in(page, {"wrong": "tally_admin_" + "x" * 40, "empty": " "}.get(kind) or guarded_server.named[kind])
    expect(page.get_by_role("alert")).to_contain_text("Not signed in.")
    expect(page.get_by_role("alert").locator("p")).to_have_text(re.compile(r"\w+.*\."))
    assert page.context.cookies() == []


def test_going_back_after_signing_out_shows_nothing(guarded_server: Served, open_page: OpenPage) -> None:
    """UI 16: pages are not kept by the browser, so the back button leads to the login."""
    page = open_page(guarded_server.console)
    _sign_in(page, guarded_server.named["admin"])
    page.goto(f"{guarded_server.console}/streams")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert page.context.cookies() == []


@pytest.mark.parametrize("path", ["/data/overview", "/data/tail", "/data/streams/order/1/state?seq=1", "/data/jobs/x"])
def test_data_needs_the_cookie(path: str, guarded_server: Served) -> None:
    """CP-10: what scripts ask for needs the cookie too."""
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(guarded_server.console + path, timeout=30)
    refusal.value.close()
    assert refusal.value.code == 401


def test_the_address_of_a_file_leads_to_the_login(guarded_server: Served) -> None:
    """CP-10: without the cookie the address of a payload gives the login page instead."""
    with urllib.request.urlopen(f"{guarded_server.console}/events/x/payload", timeout=30) as answer:
        assert answer.geturl().startswith(f"{guarded_server.console}/login")
        assert b"<h1>Sign in</h1>" in answer.read()
