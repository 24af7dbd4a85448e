"""The templates and scripts themselves: nothing inline, nothing from elsewhere, no way round the escaping."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

import pytest

CONSOLE = resources.files("tallystick.server.console")
INLINE = re.compile(
    r"\sstyle\s*=|\son[a-z]+\s*=|<style|javascript:|<script(?![^>]*(\ssrc=|application/json))", re.IGNORECASE
)
UNESCAPED = re.compile(r"\|\s*safe\b|autoescape\s+false|Markup\(")
ELSEWHERE = re.compile(r"""(src|href|action|url\()\s*=?\s*["']?(https?:)?//""", re.IGNORECASE)
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser")


def _texts(folder: str, *suffixes: str) -> Iterator[tuple[str, str]]:
    for file in CONSOLE.joinpath(folder).iterdir():
        if file.name.endswith(suffixes):
            yield file.name, file.read_text("utf-8")


@pytest.mark.parametrize("pattern", [INLINE, UNESCAPED, ELSEWHERE], ids=["inline", "unescaped", "elsewhere"])
def test_templates_hold_nothing_that_the_policy_would_block(pattern: re.Pattern[str]) -> None:
    """No script or style in a template, no address of another site, nothing that is printed unescaped."""
    assert [
        (name, found.group()) for name, text in _texts("templates", ".html") for found in pattern.finditer(text)
    ] == []


def test_scripts_make_no_markup_of_text() -> None:
    """What a script shows becomes a text node; no script turns a text into elements or code."""
    texts = list(_texts("static", ".js"))
    assert texts
    assert [(name, found.group()) for name, text in texts for found in MARKUP.finditer(text)] == []
    assert [(name, found.group()) for name, text in texts for found in ELSEWHERE.finditer(text)] == []


def test_everything_that_a_page_asks_for_is_there() -> None:
    """Every file under /console/static that a template or a script names exists."""
    there = {name for name, _ in _texts("static", ".js", ".css", ".svg")}
    named = {
        found for _, text in _texts("templates", ".html") for found in re.findall(r"/console/static/([\w.]+)", text)
    }
    named |= {found for _, text in _texts("static", ".js") for found in re.findall(r'from "\./([\w.]+)"', text)}
    assert {name for name in named if "." in name} - {""} <= there | {""}
    assert there - named - {"tokens.css", "layout.css", "parts.css", "drawings.css"} == set()
