"""Tags in the console: on the page of an event, each a link to the events that have it."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from tallystick import NewEvent, select
from tallystick.server.console import event_filter

TAGS = ["course:c1", " vip&<b>'\"?#%+", "ü/1"]


@pytest.fixture
def page(serve: Any) -> Any:
    """Pages of the console, over events with tags and without."""
    served = serve()
    store = served.service.store
    store.append("order/1", [NewEvent("noted", {}, tags=TAGS, meta={"app": "shop"}), NewEvent("noted", {})])
    store.append("order/1", NewEvent("noted", {}, meta={"tags": {"label": "correction"}}))

    def get(path: str) -> str:
        answer = served.client.get(f"/console{path}")
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    get.events = store.read().events  # type: ignore[attr-defined]
    return get


def test_each_tag_is_a_link_to_the_events_that_have_it(page: Any) -> None:
    """TAG-01, CP-15: whatever is in a tag, its link selects exactly that tag, and the page shows it as text."""
    first, second, labelled = page.events
    shown = page(f"/events/{first.uuid}")
    links = re.findall(r'<a href="(/console/events\?tag=[^"]*)">([^<]*)</a>', shown)
    assert [unescape(text) for _, text in links] == sorted(TAGS)
    for address, _ in links:
        listed = page(unescape(address).removeprefix("/console"))
        assert str(first.uuid) in listed
        assert str(second.uuid) not in listed
    assert "<dt>app</dt>" in shown
    assert "<dt>tags</dt>" not in page(f"/events/{second.uuid}")
    assert "{&#34;label&#34;:&#34;correction&#34;}" in page(f"/events/{labelled.uuid}")


def test_the_filter_takes_a_tag(page: Any) -> None:
    """CP-15: exactly as it is, with its spaces; one that cannot exist is refused next to its field."""
    for tag in TAGS:
        assert event_filter.read({"tag": tag}).selection == select(tags=[tag])
    for wrong in ("a\n", "a" * 257, "\u202e"):
        assert event_filter.read({"tag": wrong}).wrong == ("tag",)
