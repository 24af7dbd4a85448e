"""Listing many streams costs as much as there are, however many pages it takes and however small the cache is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.engines.files import index
from tallystick.testing.builders import event

STREAMS, PAGE = 600, 20


def pages(store: Any) -> Iterator[list[str]]:
    """The names of all streams, page by page."""
    after = ""
    while page := store.streams(after=after, limit=PAGE):
        yield [info.stream for info in page]
        after = page[-1].stream


def filled(store: Any) -> list[str]:
    """One event in each of many streams; returns their names in order."""
    names = [f"order/{number}" for number in range(STREAMS)]
    store.append_all([(name, [event()], -1) for name in names])
    return sorted(names)


def test_a_growing_index_is_sorted_once(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-18: the names that are in memory are put in order once and not for each page."""
    store, sorts = opened(), []
    names = filled(store)
    monkeypatch.setattr(index, "sorted", lambda items: sorts.append(1) or sorted(items), raising=False)
    assert [name for page in pages(store) for name in page] == names
    assert len(sorts) == 1
    store.append("order/new", event())
    assert len([name for page in pages(store) for name in page]) == STREAMS + 1
    assert len(sorts) == 2


def test_an_index_file_is_read_once_though_the_cache_is_too_small(opened: Any, hooked: Any, directory: Path) -> None:
    """LH-18: with a million streams one section is larger than the cache; finding a stream needs two of them."""
    with opened() as store:
        names = filled(store)
    store = opened(filesystem=hooked)
    store.log._view.handles.cache._bytes_max = 1
    before = hooked.counts["read"]
    assert [name for page in pages(store) for name in page] == names
    assert hooked.counts["read"] - before < 10
