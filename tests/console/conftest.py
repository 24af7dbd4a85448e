"""One Chromium and a few real servers for all tests here. Without Chromium they are skipped, and say how to run them.

TALLY_REQUIRE_BROWSER=1 makes its absence a failure. TALLY_CHROMIUM names the program if it is not found by itself.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tallystick

from . import serving, shop, stock
from .serving import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = os.environ.get("TALLY_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
REQUIRED = "TALLY_REQUIRE_BROWSER"
ADVICE = "the console is tested in Chromium, which is not here: `apt-get install chromium`, then `make test-all` again"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT_MS = 30_000  # for what happens at once on a quiet machine
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}

OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    if CHROMIUM is None:
        (pytest.fail if os.environ.get(REQUIRED) == "1" else pytest.skip)(ADVICE)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Open pages, each in its own session. An error in the browser's console fails the test, unless it is expected."""
    complaints: list[str] = []
    expected: list[str] = []
    contexts = []

    def open_(address: str, *, phone: bool = False, dark: bool = False, expect: str = "") -> Page:
        context = browser.new_context(
            viewport=PHONE if phone else DESK, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda problem: complaints.append(str(problem)))
        if expect:
            expected.append(expect)
        page.goto(address)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert [each for each in complaints if not any(word in each for word in expected)] == []


@pytest.fixture(scope="session")
def shop_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A shop's store, served with its reducer and its projection."""
    place = tmp_path_factory.mktemp("shop")
    url, named = _stocked(place)
    environment = {shop.PACE: str(place / "pace"), "TALLY_PRUNE_DAYS": "0.000001"}
    with serving.serving(url, *serving.SHOP, named=named, log=place / "log.txt", **environment) as served:
        yield served


@pytest.fixture(scope="session")
def damaged_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A worn store with one changed byte. Nothing is compressed, so that the byte is found."""
    place = tmp_path_factory.mktemp("damaged")
    plain = 1 << 40
    url, named = _stocked(place, worn=True, compress_bytes_min=plain)
    _flip(place / "log", b'"P-00030"')
    environment = {"TALLY_COMPRESS_BYTES_MIN": str(plain)}
    with serving.serving(url, "--reducer", "shop:order", named=named, log=place / "log.txt", **environment) as served:
        served.look("/streams/order/1030")  # what reads the damaged place finds the damage
        yield served


@pytest.fixture(scope="session")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A store with tokens: an operator's and a tenant's."""
    place = tmp_path_factory.mktemp("guarded")
    url = f"sqlite:{place}/log.db"
    with tallystick.open(url) as store:
        store.append("order/1", tallystick.NewEvent("order.placed", {"cents": 5}, {"org": "acme"}))
    admin = serving.tally("token", "issue", url, "admin", "--actor", "night-watch", "--json")
    tenant = serving.tally("token", "issue", url, "tenant", "--actor", "acme", "--org", "acme", "--json")
    named = {"admin": admin["token"], "tenant": tenant["token"]}
    with serving.serving(url, named=named, log=place / "log.txt") as served:
        yield served


@pytest.fixture(scope="session")
def community_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A newcomer of a community, served next to the founder, with whom it gossips."""
    place = tmp_path_factory.mktemp("community")
    founder, newcomer = place / "founder", place / "newcomer"
    founded = serving.tally("community", "init", str(founder), "--name", "our street", "--json")
    invitation = place / "invitation"
    invitation.write_text(json.dumps(serving.tally("community", "invite", str(founder))))
    with serving.serving(f"sqlite:{founder}/log.db", log=place / "founder.txt") as first:
        joined = serving.tally("community", "join", str(newcomer), str(invitation), "--allow-private", "--json")
        peer = f"{founded['node']}@{first.address}"
        serving.tally_apart("community", "sync", str(newcomer), "--peer", peer, "--allow-private")
        with serving.serving(f"sqlite:{newcomer}/log.db", named=joined, log=place / "newcomer.txt") as served:
            yield served


def _flip(directory: Path, text: bytes) -> None:
    """Change one bit of a text in a segment."""
    segment = next(path for path in sorted(directory.glob("*.log")) if text in path.read_bytes())
    content = bytearray(segment.read_bytes())
    content[content.index(text) + 3] ^= 1
    segment.write_bytes(content)


def _stocked(place: Path, *, worn: bool = False, **options: Any) -> tuple[str, dict[str, str]]:
    url = f"files:{place}/log"
    with tallystick.open(url, **options) as store:
        return url, stock.fill(store, place, worn=worn)
