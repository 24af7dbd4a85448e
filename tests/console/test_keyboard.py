"""The console without a mouse, in the dark, and for those who cannot see well."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from playwright.sync_api import Page, expect

from .conftest import OpenPage
from .serving import Served

TOKENS = resources.files("tallystick.server.console").joinpath("static/tokens.css")
TEXTS = ("ink", "ink-2", "ink-3", "accent", "ok", "warn", "bad")
GROUNDS = ("paper", "sheet")


def _wait_for_script(page: Page) -> None:
    page.wait_for_function("document.documentElement.dataset.ready === 'yes'")


def test_from_the_skip_link_to_an_event_by_keys_only(shop_server: Served, open_page: OpenPage) -> None:
    """Skip link, pages by g and a letter, rows by j, filter by /: the focus is always visible."""
    page = open_page(shop_server.console)
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", level=1)).to_have_text("Streams")
    _wait_for_script(page)
    page.keyboard.press("/")
    expect(page.get_by_label("Start at")).to_be_focused()
    page.keyboard.type("order/1007")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr").first).to_contain_text("order/1007")
    _wait_for_script(page)
    page.keyboard.press("j")
    row = page.get_by_role("link", name="order/1007", exact=True)
    expect(row).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("order/1007")


def test_keys_do_nothing_while_somebody_types(shop_server: Served, open_page: OpenPage) -> None:
    """A name with a g or an l in it is typed as a name, and does not open another page."""
    page = open_page(f"{shop_server.console}/events")
    page.get_by_label("Org").fill("")
    page.get_by_label("Org").press_sequentially("global/?t")
    expect(page.get_by_label("Org")).to_have_value("global/?t")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_the_list_of_shortcuts_opens_and_closes(shop_server: Served, open_page: OpenPage) -> None:
    """A question mark shows them, and Escape hides them."""
    page = open_page(f"{shop_server.console}/runs")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("light or dark")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_light_and_dark_follow_the_system_until_they_are_chosen(shop_server: Served, open_page: OpenPage) -> None:
    """The choice of the system is the default; the toggle overrides it, and is kept."""
    page = open_page(f"{shop_server.console}/runs", dark=True)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Theme").click()
    light = page.evaluate(ground)
    assert dark != light
    page.goto(f"{shop_server.console}/streams")
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_enough_contrast(theme: str) -> None:
    """Every colour of text has a contrast of 4.5 or more on every ground, in light and in dark."""
    sheet = TOKENS.read_text("utf-8")
    block = sheet.split(":root {")[1] if theme == "light" else sheet.split(':root[data-theme="dark"] {')[1]
    tokens = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block.split("}")[0]))
    pairs = [(text, ground) for text in TEXTS for ground in GROUNDS]
    pairs += [(state, f"{state}-soft") for state in ("ok", "warn", "bad", "accent")] + [("accent-ink", "accent")]
    poor = {pair: ratio for pair in pairs if (ratio := _contrast(tokens[pair[0]], tokens[pair[1]])) < 4.5}
    assert not poor


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_dark_of_the_system_is_the_dark_of_the_toggle() -> None:
    """The two blocks of dark tokens are the same."""
    blocks = [block.split("}")[0] for block in TOKENS.read_text("utf-8").split("color-scheme: dark;")[1:]]
    assert len(blocks) == 2
    assert blocks[0].split() == blocks[1].split()
