"""Appends with conditions against writers of the same tags."""

from __future__ import annotations

import pytest

from tests.postgres.condition_race import (
    Race,
    batches,
    by_append,
    by_head,
    hanging,
    inline,
    many_tags,
    several,
    single,
    untagged,
)

EVERY_KIND = (single, single, several, several, many_tags, inline, untagged, by_head, batches, hanging)


def test_no_condition_passes_wrongly(url: str) -> None:
    """TAG-02: whoever passed knew every matching event that was committed before; no deadlock, whatever the mix."""
    finish = Race(url, passes=100).run(EVERY_KIND)
    assert finish.passed >= 100
    assert finish.refused > 20, "without refusals this race proves little"
    assert (finish.wrong, finish.deadlocks) == (0, 0)


@pytest.mark.slow
def test_no_condition_passes_wrongly_in_a_long_race(url: str) -> None:
    """TAG-02: 0 of 10,000."""
    finish = Race(url, passes=10_000, tags=30).run(EVERY_KIND)
    assert finish.passed >= 10_000
    assert (finish.wrong, finish.deadlocks) == (0, 0)


def test_the_race_catches_conditions_without_locks(url: str) -> None:
    """TAG-02: with every probe and no lock of a tag, conditions pass wrongly here."""
    assert Race(url, passes=100, locks=False).run([single] * 4 + [several] * 2 + [batches, hanging]).wrong > 0


def test_the_race_catches_markers_from_appends(url: str) -> None:
    """TAG-02: a position taken from an append says nothing of lower ones that were not visible yet."""
    assert Race(url, passes=20).run([by_append] * 4 + [hanging] * 3).wrong > 0
