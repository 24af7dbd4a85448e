"""The events of the demo and of the soak."""

from __future__ import annotations

from examples.demo import traffic
from tallystick.event import canonical

COUNT = 5000


def test_the_same_seed_gives_the_same_events() -> None:
    """The sent events can be generated again and compared with the stored ones."""
    assert list(traffic.commits(COUNT, seed=4)) == list(traffic.commits(COUNT, seed=4))
    assert list(traffic.commits(COUNT, seed=4)) != list(traffic.commits(COUNT, seed=5))


def test_events_are_numbered_without_gaps() -> None:
    """Every event has the next number, and carries it in its id."""
    events = [event for commit in traffic.commits(COUNT) for event in commit.events]
    assert [traffic.event_number(event.id) for event in events] == list(range(COUNT))  # type: ignore[arg-type]


def test_an_id_from_elsewhere_carries_no_number() -> None:
    """An event that the demo did not make is not mistaken for one of its own."""
    assert traffic.event_number(bytes(16)) is None
    changed = bytearray(traffic.event_id(7))
    changed[0] ^= 1
    assert traffic.event_number(bytes(changed)) is None


def test_commits_are_mixed() -> None:
    """Single events, a few at once, and whole imports all occur, over many streams."""
    commits = list(traffic.commits(20_000))
    sizes = [len(commit.events) for commit in commits]
    assert sizes.count(1) > 100
    assert sum(1 < size < 40 for size in sizes) > 100
    assert max(sizes) >= 100
    assert len({commit.stream for commit in commits}) > 300


def test_a_shorter_run_is_the_beginning_of_a_longer_one() -> None:
    """A writer that continues for another sends exactly what the other would have sent."""
    short = [event for commit in traffic.commits(1000) for event in commit.events]
    long = [event for commit in traffic.commits(COUNT) for event in commit.events]
    assert long[:1000] == short


def test_payload_sizes_vary() -> None:
    """From a line of a ledger to a page of tool output."""
    sizes = [len(canonical.encode(event.payload)) for commit in traffic.commits(COUNT) for event in commit.events]
    assert min(sizes) < 100
    assert max(sizes) > 1500
