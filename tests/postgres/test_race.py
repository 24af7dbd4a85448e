"""Readers against writers that commit out of order."""

from __future__ import annotations

import itertools

import pytest

from tests.postgres import race


def test_no_reader_ever_misses_an_event(url: str) -> None:
    """CP-04: 8 writers, rollbacks, killed processes, an idle transaction: both readers see all, once, in order."""
    finish = race.run(url, race.Race(events=10_000))
    assert len(finish.stored) >= 10_000
    assert finish.killed > 3
    assert finish.missed == 0
    assert finish.is_exact
    assert all(before < after for before, after in itertools.pairwise(finish.seen))
    assert 0 < len(finish.seen_of_tenant) < len(finish.seen)
    assert finish.stored[-1] > len(finish.stored), "without gaps this race proves little"


@pytest.mark.parametrize("wrong", [race.NaiveReader, race.SnapshotFence], ids=lambda kind: kind.__name__)
def test_the_race_catches_readers_that_are_wrong(url: str, wrong: type[race.NaiveReader]) -> None:
    """CP-04: a reader on `event_id > cursor`, and one with a fence of transaction numbers, lose events here."""
    finish = race.run(url, race.Race(events=3_000, idle=False), reader=wrong)
    assert finish.missed > 0
