"""Canonical JSON: what is refused is refused with its place, and cheaply."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tallystick import errors
from tallystick.event import canonical, limits

PLACES: list[tuple[Any, str]] = [
    ({"a": [1, {"b/c~d": float("nan")}]}, "/a/1/b~1c~0d"),
    ({"": {"": b"x"}}, "//"),
    ({"a": 1, "b": [[], [1, (2,)]]}, "/b/1/1"),
    ({"a": {1: 2}}, "/a"),
    ({"a": {"x\0": 1}}, "/a/x\0"),
    ({"a": [None, "\ud800"]}, "/a/1"),
    ({"a": [{"ok": 1}], "b": 1 << 64}, "/b"),
    ([], ""),
]


@pytest.mark.parametrize(("value", "pointer"), PLACES, ids=[pointer for _, pointer in PLACES])
def test_the_place_is_named_by_a_json_pointer(value: Any, pointer: str) -> None:
    """The error points at the value that has no canonical form, by RFC 6901."""
    with pytest.raises(errors.NotCanonical) as refused:
        canonical.encode(value, what="meta")
    assert (refused.value.what, refused.value.pointer) == ("meta", pointer)


def test_the_first_bad_value_of_a_batch_is_named() -> None:
    """One bad value among many is found, and the others are not blamed."""
    with pytest.raises(errors.NotCanonical) as refused:
        canonical.encode_many([{"a": 1}, {"b": float("inf")}, {"c": float("nan")}])
    assert refused.value.pointer == "/b"


def test_a_batch_has_the_bytes_of_its_values() -> None:
    """Encoding many is encoding each."""
    values: list[Any] = [{}, {"b": 1, "a": None}, {"x": 1 << 60}, {"y": "é"}]
    assert canonical.encode_many(values) == [canonical.encode(value) for value in values]
    assert canonical.encode_many([]) == []


def test_pointers_are_cut() -> None:
    """An error does not carry a megabyte of key."""
    with pytest.raises(errors.NotCanonical) as refused:
        canonical.encode({"k" * (1 << 20): float("nan")})
    assert len(refused.value.pointer) <= 200


def test_nodes_are_counted_and_not_bytes() -> None:
    """Exactly NODES_MAX nodes pass, one more does not, on the fast path and on the walk."""
    for filler in (0, None):
        canonical.encode({"x": [filler] * (limits.NODES_MAX - 2)})
        with pytest.raises(errors.TooLarge):
            canonical.encode({"x": [filler] * (limits.NODES_MAX - 1)})


def test_a_state_may_be_any_json_value_and_large() -> None:
    """Reduced state has the same form as an event, without its limits of root and nodes."""
    assert canonical.encode_state([1, {"b": 2, "a": None}]) == b'[1,{"a":null,"b":2}]'
    assert len(canonical.encode_state(list(range(limits.NODES_MAX + 1)))) > limits.NODES_MAX
    for bad in (float("nan"), (1,), {1: 2}, "\0", 1 << 63):
        with pytest.raises(errors.NotCanonical):
            canonical.encode_state(bad)


def test_parse_keeps_what_json_says() -> None:
    """Parsed text is the value it says, in whatever layout it came."""
    assert canonical.parse(b' {"b" : 1, "a":[ 1.0, -0.0 ,1E2, "\\u00e9\\ud83d\\ude00"] }\n') == {
        "b": 1,
        "a": [1.0, -0.0, 100.0, "é😀"],
    }
    assert canonical.parse('{"x":"é"}') == {"x": "é"}


def test_a_duplicate_key_is_named() -> None:
    """Text with a key that stands twice is refused by that key, however it is written."""
    with pytest.raises(errors.NotCanonical) as refused:
        canonical.parse(b'{"a":{"key":1,"k\\u0065y":1}}')
    assert "key" in refused.value.pointer
    assert "twice" in refused.value.reason


def test_a_number_that_would_become_zero_is_refused() -> None:
    """SAFE-05: a literal too small for a double is named; zeros, however written, and the smallest doubles are kept."""
    for text in ("1e-400", "-1e-400", "4.2E-324", "0." + "0" * 330 + "7"):
        if float(text) == 0.0:
            with pytest.raises(errors.NotCanonical) as refused:
                canonical.parse('{"x":[' + text + "]}")
            assert text[:40] in refused.value.reason
    kept = canonical.parse('{"x": [0e-999, 0.000, -0.0E5, 5e-324, 1e-320]}')
    assert str(kept["x"]) == "[0.0, 0.0, -0.0, 5e-324, 1e-320]"


def test_text_with_a_lone_surrogate_is_refused() -> None:
    """A str that has no UTF-8 is an error with a name."""
    with pytest.raises(errors.NotCanonical):
        canonical.parse('{"x":"\ud800"}')


def test_the_deepest_value_is_taken_also_far_down_the_stack() -> None:
    """The walk of a value of the greatest depth fits under a caller that is itself a few hundred calls deep."""
    value: Any = None
    for _ in range(limits.DEPTH_MAX - 1):
        value = [value]

    def call(depth: int) -> bytes:
        return canonical.encode({"x": value}) if depth == 0 else call(depth - 1)

    assert sys.getrecursionlimit() >= 1000
    assert call(200).startswith(b'{"x":[[[')
