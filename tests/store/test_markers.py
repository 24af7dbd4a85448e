"""Markers of another history: a copy that went on by itself has other events at the same positions."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import Marker, NewEvent, errors, match

TAKEN = match(tags=["a:1"])


@pytest.fixture(params=["files", "sqlite"])
def forked(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A log with two events, and a copy of it whose third event is another one."""
    urls = []
    place = tmp_path / "log"
    with tallystick.open(f"{request.param}:{place}") as store:
        store.append("order/1", [NewEvent("x.done", {"n": n}, tags=["a:1"]) for n in (1, 2)])
    for name in ("log", "copy"):
        if name == "copy":
            (shutil.copytree if place.is_dir() else shutil.copy)(place, tmp_path / name)
        urls.append(f"{request.param}:{tmp_path / name}")
    for number, url in enumerate(urls):
        with tallystick.open(url) as store:
            store.append("order/1", NewEvent("x.done", {"n": 10 + number}, tags=["a:1"]))
    return urls[0], urls[1]


def test_a_marker_of_the_other_history_is_refused(forked: tuple[str, str]) -> None:
    """TAG-02: positions after the fork mean other events, so the marker proves nothing here; nothing is written."""
    with tallystick.open(forked[0]) as one, tallystick.open(forked[1]) as other:
        marker = one.consult(TAKEN).marker
        with pytest.raises(errors.WrongStore):
            other.append("order/2", NewEvent("x.done", {}), unless=marker)
        with pytest.raises(errors.WrongStore):
            other.append_all([("order/2", [NewEvent("x.done", {})], -1)], unless=marker)
        assert other.head() == 3
        one.append("order/2", NewEvent("x.done", {}), unless=marker)


def test_a_marker_from_before_the_fork_is_good_in_both(forked: tuple[str, str]) -> None:
    """TAG-02: its evidence is an event that both have. What each recorded since counts."""
    for url in forked:
        with tallystick.open(url) as store:
            before = store.cursor(2)
            with pytest.raises(errors.ConditionFailed):
                store.append("order/2", NewEvent("x.done", {}), unless=Marker(TAKEN, before))
            assert store.append("order/2", NewEvent("x.done", {}), unless=Marker(TAKEN, before, 1)).seq == 1


@pytest.mark.parametrize(
    "after", ["", "x", "3.", "3.AAAA", "-1", "1e0", " 3", "3\n", "9" * 20, "2." + "A" * 28, 3.0, None, True]
)
def test_what_is_no_cursor_is_refused(forked: tuple[str, str], after: Any) -> None:
    """TAG-02: by name, whatever it is, before anything is written."""
    with tallystick.open(forked[0]) as store:
        with pytest.raises((errors.InvalidInput, errors.WrongStore)):
            store.append("order/2", NewEvent("x.done", {}), unless=Marker(TAKEN, after))
        assert store.head() == 3
