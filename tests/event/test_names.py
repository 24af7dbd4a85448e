"""The form of names."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallystick import errors
from tallystick.event import names
from tallystick.testing.contract import hostile_arguments

KIND, NAME = "[a-z][a-z0-9_.-]{0,95}", "[A-Za-z0-9][A-Za-z0-9_.:@=+-]{0,190}"


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.from_regex(f"{KIND}/{NAME}", fullmatch=True).filter(lambda name: not name.startswith("run/")))
def test_every_name_of_the_form_is_a_stream(stream: str) -> None:
    """The fixed form of the envelope, and its kind in front of the slash."""
    assert names.stream_kind(stream) == stream.partition("/")[0]


@given(st.text(max_size=12) | st.from_regex(f"{KIND}/{NAME}\n", fullmatch=True))
def test_nothing_else_is(stream: str) -> None:
    """Names are matched whole: a newline at the end, which `$` would let through, is refused."""
    if not re.fullmatch(f"{KIND}/{NAME}", stream):
        with pytest.raises(errors.InvalidName):
            names.stream_kind(stream)


def test_runs_are_in_lower_case() -> None:
    """RUN-01: a run's id becomes a directory, also on file systems that fold case."""
    assert names.stream_kind("run/a-1") == "run"
    with pytest.raises(errors.InvalidName):
        names.stream_kind("run/A-1")
    assert names.stream_kind("runs/A-1") == "runs"


def test_a_refusal_is_remembered_by_nobody() -> None:
    """The cache of names holds good ones only; a bad one is refused every time."""
    for _ in range(3):
        with pytest.raises(errors.InvalidName):
            names.kind_of("order/ x")


@pytest.mark.parametrize("name", ["a", "A.b_c-1", "x" * 128])
def test_types_of_the_form_are_taken(name: str) -> None:
    """Letters first, then letters, digits, dot, underscore and dash, at most 128."""
    assert names.check_type(name) == name


@pytest.mark.parametrize("value", hostile_arguments.BAD_STREAMS.values(), ids=hostile_arguments.BAD_STREAMS.keys())
def test_a_refused_value_is_shown_short(value: object) -> None:
    """What an error carries of a value is bounded, and never fails to be made."""
    assert len(str(names.display(value))) <= 300


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        ((1 << 64) - 1, (1 << 64) - 1),
        (1 << 64, "an integer of 65 bits"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 300),
        (["x"], "a list"),
        (b"x", "a bytes"),
    ],
    ids=str,
)
def test_a_refused_value_is_shown_as_it_is_or_by_what_it_is(value: object, shown: object) -> None:
    """Small values as they are, long texts cut, large integers by their size, everything else by its type."""
    assert names.display(value) == shown
    assert type(names.display(value)) is type(shown)


@pytest.mark.parametrize("kind", ["tally.store", "tally.", "tally.x"])
def test_reserved_kinds(kind: str) -> None:
    """EVT-05: kinds that start with `tally.` are the store's own."""
    assert names.is_reserved(kind)
    assert not names.is_reserved(kind.replace(".", "_"))


@pytest.mark.parametrize(
    ("stream", "feed", "aside"),
    [
        (f"{names.FEEDS}x/node", True, False),
        (f"{names.FEEDS}x/{names.ASIDE}node", False, True),
        ("order/1", False, False),
        (f"order/{names.ASIDE}1", False, False),
    ],
)
def test_a_feed_is_told_from_what_is_kept_aside(stream: str, feed: bool, aside: bool) -> None:
    """Every event of a feed is signed; what a node keeps aside holds signed events inside, and is no feed."""
    assert (names.is_feed(stream), names.is_aside(stream)) == (feed, aside)
