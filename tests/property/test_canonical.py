"""The most important property: the fast path of canonical JSON takes exactly what the exact walk takes."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import math
import struct
import uuid
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tallystick import errors
from tallystick.event import canonical, limits
from tallystick.testing.contract import hostile

EDGES = [
    edge + step for edge in (0, 1 << 53, 1 << 63, 1 << 64, -(1 << 53), -(1 << 63), -(1 << 64)) for step in (-1, 0, 1)
]

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8).filter(lambda text: "\0" not in text)
numbers = st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False, allow_infinity=False)
plain_leaves = st.none() | st.booleans() | numbers | texts
plain = st.recursive(
    plain_leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)
plain_objects = st.dictionaries(texts, plain, max_size=5)


class Ratio(float):
    """A float that is not quite one."""


class Name(enum.StrEnum):
    """A constant that is a text too."""

    ONE = "one"


hostile_leaves = st.one_of(
    st.sampled_from(EDGES),
    st.integers(),
    st.floats(),
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, Ratio(1.5), True, None, Name.ONE, hostile.Colour.RED]),
    st.text(max_size=4),
    st.sampled_from(["\0", "a\0", "\ud800", "\udfff\ud800", "null", "\\u0000", '"', "\u2028", "\x7f"]),
    st.binary(max_size=3) | st.binary(max_size=3).map(bytearray) | st.binary(max_size=3).map(memoryview),
    st.text(max_size=3).map(hostile.Text) | st.integers().map(hostile.Number),
    st.uuids() | st.datetimes() | st.dates() | st.times() | st.timedeltas() | st.decimals(),
    st.frozensets(st.integers(), max_size=2) | st.sets(st.integers(), max_size=2),
    st.sampled_from([object(), hostile.Size.SMALL, ..., int, complex(1), range(2), decimal.Decimal("NaN")]),
)
odd_keys = st.one_of(
    st.text(max_size=3),
    st.sampled_from(["", "\0", "\ud800", "__proto__", hostile.Text("k"), Name.ONE]),
    st.integers() | st.booleans() | st.none() | st.floats() | st.binary(max_size=2) | st.uuids(),
    st.tuples(st.integers()),
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=3)
    objects = st.dictionaries(st.text(max_size=3), inner, max_size=3)
    return st.one_of(
        lists,
        lists,
        objects,
        objects,
        lists.map(tuple),
        lists.map(hostile.Sequence),
        objects.map(hostile.Mapping),
        st.dictionaries(odd_keys, inner, max_size=2),
    )


anything = st.recursive(plain_leaves | hostile_leaves, _containers, max_leaves=8)
mixed = st.dictionaries(st.text(max_size=3), anything, max_size=2)
planted = st.builds(lambda base, leaf, key: base | {key: [base, {"y": leaf}]}, plain_objects, hostile_leaves, texts)
roots = st.one_of(plain_objects, planted, planted, planted, mixed, anything)


def _walk_takes(value: Any) -> bool:
    try:
        canonical.check(value)
    except errors.TallyError:
        return False
    return True


def _fast_path(values: list[Any]) -> list[bytes] | None:
    try:
        return canonical.encode_many(values)
    except errors.TallyError:
        return None


def _same(one: Any, two: Any) -> bool:
    """Equal in value, type and sign, all the way down."""
    if type(one) is not type(two):
        return False
    if type(one) is dict:
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    if type(one) is list:
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two) and (type(one) is not float or math.copysign(1, one) == math.copysign(1, two))


NOT_NUMBERS = {
    bits: struct.unpack(">d", bytes.fromhex(bits))[0]
    for bits in (
        "7ff0000000000000",
        "fff0000000000000",
        "7ff8000000000000",
        "fff8000000000000",
        "7ff0000000000001",
        "ffffffffffffffff",
    )
}
ODD = hostile.REFUSED_VALUES | NOT_NUMBERS | {"float subclass": Ratio(1.5), "text enum": Name.ONE}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD.keys())
def test_one_odd_value_among_plain_ones_is_refused(value: Any) -> None:
    """Whatever stands around it, a single value without a form is seen by the walk and by the fast path."""
    for around in ({}, {"a": None}, {"a": [1.5, "null"], "b": "\u7ff0"}, {"a": -1, "z": True}):
        for given_ in (around | {"x": value}, around | {"x": [1, {"y": value}]}, {"x": {"y": [value, around]}}):
            assert not _walk_takes(given_)
            assert _fast_path([given_]) is None
            assert _fast_path([{"a": None}, given_, {"b": 1}]) is None


@settings(max_examples=1200, deadline=None, derandomize=True, database=None)
@given(roots)
def test_the_fast_path_takes_exactly_what_the_walk_takes(value: Any) -> None:
    """What the C encoders let through the walk would let through, and the bytes say the value again."""
    encoded = _fast_path([value])
    assert (encoded is not None) == _walk_takes(value)
    if encoded is not None:
        assert _same(canonical.decode(encoded[0]), value)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.lists(roots, min_size=1, max_size=4))
def test_a_batch_is_taken_if_each_of_its_values_is(values: list[Any]) -> None:
    """A bad value is not hidden by good ones beside it, nor are they refused for it."""
    encoded = _fast_path(values)
    assert (encoded is not None) == all(map(_walk_takes, values))
    if encoded is not None:
        assert encoded == [canonical.encode(value) for value in values]


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(plain_objects)
def test_plain_json_is_taken_and_comes_back(value: dict[str, Any]) -> None:
    """Every JSON object within the limits has a form, and encoding is idempotent through parse."""
    encoded = canonical.encode(value)
    assert _same(canonical.decode(encoded), value)
    assert _same(canonical.parse(encoded), value)
    assert canonical.encode(canonical.parse(encoded)) == encoded


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(plain_objects, st.booleans(), st.sampled_from([None, 2]))
def test_layout_does_not_matter(value: dict[str, Any], escape: bool, indent: int | None) -> None:
    """The same value in another layout, escaping and order of keys has the same canonical bytes."""
    turned = dict(reversed(value.items()))
    text = json.dumps(turned, ensure_ascii=escape, indent=indent)
    assert canonical.encode(canonical.parse(text)) == canonical.encode(value)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(plain_objects)
def test_the_bytes_have_the_canonical_form(value: dict[str, Any]) -> None:
    """Said again by the standard library: sorted by code point, no spaces, nothing escaped that need not be."""
    encoded = canonical.encode(value).decode()
    pairs: list[list[str]] = []
    json.loads(encoded, object_pairs_hook=lambda items: pairs.append([key for key, _ in items]))
    assert all(keys == sorted(keys) for keys in pairs)
    assert "\n" not in encoded
    if not _has_float(value):
        assert encoded == json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _has_float(value: Any) -> bool:
    if type(value) in (dict, list):
        return any(map(_has_float, value.values() if type(value) is dict else value))
    return type(value) is float


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b'{"a":1,"a":1}')
@example(b"\xff\xfe{\0}\0")
@example(b"-")
def test_no_text_makes_parse_fail_in_another_way(text: bytes) -> None:
    """Whatever bytes come in, the answer is a value that can be encoded or not, or a typed error."""
    try:
        value = canonical.parse(text)
    except errors.InvalidInput:
        return
    assert (_fast_path([value]) is not None) == _walk_takes(value)


@pytest.mark.parametrize("depth", [253, 254, 255, 256, 1000])
@pytest.mark.parametrize("leaf", [1, None, [], {}, "", [1], {"a": 1}], ids=repr)
@pytest.mark.parametrize("shape", [lambda x: [x], lambda x: {"k": x}], ids=["lists", "objects"])
def test_both_paths_stop_at_the_same_depth(depth: int, leaf: Any, shape: Any) -> None:
    """254 containers inside each other pass and 255 do not, whatever is in the innermost."""
    value = leaf
    for _ in range(depth - 1):
        value = shape(value)
    value = {"k": value}
    inside = 1 if isinstance(leaf, (list, dict)) else 0
    assert _walk_takes(value) == (depth + inside <= 254)
    assert (_fast_path([value]) is not None) == _walk_takes(value)
    assert (_fast_path([{}, value, {}]) is not None) == _walk_takes(value)


@pytest.mark.parametrize("count", [limits.NODES_MAX + more for more in (-12, -3, -2, -1, 0, 1, 30_000)])
@pytest.mark.parametrize("item", [0, None, "", [], {}, 12345, True], ids=repr)
def test_both_paths_stop_at_the_same_number_of_nodes(count: int, item: Any) -> None:
    """As many nodes as fit into an event pass and one more does not, whether a node is one byte or many."""
    value = {"": [item] * count}
    assert _walk_takes(value) == (count + 2 <= limits.NODES_MAX)
    assert (_fast_path([value]) is not None) == _walk_takes(value)
    assert (_fast_path([{"a": 1}, value]) is not None) == _walk_takes(value)


@pytest.mark.parametrize("number", EDGES)
def test_both_paths_agree_at_the_edges_of_integers(number: int) -> None:
    """Integers are exact within int64 and refused beyond it, as values and inside a batch."""
    assert _walk_takes({"x": number}) == (-(1 << 63) <= number < 1 << 63)
    encoded = _fast_path([{"x": number}])
    assert encoded == ([b'{"x":%d}' % number] if _walk_takes({"x": number}) else None)


def test_the_strategies_reach_both_answers() -> None:
    """The property above is not empty: among its values are many that pass and many that do not."""
    answers: list[bool] = []

    @settings(max_examples=200, deadline=None, derandomize=True, database=None)
    @given(roots)
    def look(value: Any) -> None:
        answers.append(_walk_takes(value))

    look()
    assert answers.count(True) > 40
    assert answers.count(False) > 40


def test_uuid_and_dates_are_not_turned_into_text() -> None:
    """What msgspec would write as text is refused, since it would come back as another type."""
    for value in (
        uuid.UUID(int=1),
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        decimal.Decimal(1),
        hostile.Size.SMALL,
    ):
        assert _fast_path([{"x": value}]) is None
