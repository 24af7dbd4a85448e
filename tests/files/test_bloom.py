"""The filters of the index files: they never deny what is there, seldom claim what is not, and stay readable."""

from __future__ import annotations

import hashlib

import pytest

from tallystick.engines.files import bloom


def _names(kind: str, count: int) -> list[str]:
    return [f"{kind}/{number}" for number in range(count)]


@pytest.mark.parametrize("count", [1, 7, 2000])
def test_no_name_is_denied(count: int) -> None:
    """A filter that denied a stream would hide its events."""
    field = bloom.build(_names("order", count), count)
    assert all(bloom.may_hold(field, name) for name in _names("order", count))


def test_few_other_names_are_claimed() -> None:
    """Ten bits for each name: one other name in a hundred makes the reader look into the index for nothing."""
    field = bloom.build(_names("order", 2000), 2000)
    claimed = sum(bloom.may_hold(field, name) for name in _names("other", 5000))
    assert claimed < 0.02 * 5000
    assert len(field) == 2000 * 10 // 8


def test_a_filter_of_nothing_holds_nothing() -> None:
    """It has bits nevertheless: there is no division by zero."""
    assert not any(bloom.may_hold(bloom.build([], 0), name) for name in _names("order", 10))


def test_the_filters_of_earlier_versions_are_understood() -> None:
    """docs/formats/file-log.md: the bits are where they always were, of names and of digests, which are the probes."""
    digest = hashlib.blake2b(b"order/1", digest_size=16).digest()
    first, step = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") | 1
    bits = {(first + probe * step) % 64 for probe in range(6)}
    field = bloom.build(["order/1"], 1)
    assert {bit for bit in range(64) if field[bit // 8] >> bit % 8 & 1} == bits
    assert bloom.build([digest], 1) == field
    assert bloom.build(["order/1", "order/2", "order/3"], 3).hex() == "a1482084144b0482"
