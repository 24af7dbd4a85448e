"""The cache of index sections: what was used last stays, within its bytes."""

from __future__ import annotations

from tallystick.engines.files.index_file import SectionCache
from tallystick.engines.files.stream_entries import StreamEntries


def _held(cache: SectionCache, count: int) -> list[int]:
    return [number for number in range(count) if cache.get((number, "ids")) is not None]


def test_it_holds_what_its_bytes_allow_and_lets_go_of_the_oldest() -> None:
    """A section that fits exactly drops nothing; one byte more drops the one not used for longest."""
    cache = SectionCache(bytes_max=30)
    for number in range(3):
        cache.put((number, "ids"), bytes(10))
    assert cache.get((0, "ids")) == bytes(10)
    assert _held(cache, 3) == [0, 1, 2]
    cache.get((0, "ids"))
    cache.put((3, "entries"), StreamEntries(b"1", b""))
    assert _held(cache, 3) == [0, 2]
    assert cache.get((3, "entries")) == StreamEntries(b"1", b"")


def test_a_section_larger_than_the_cache_is_held_alone() -> None:
    """What was just read is there for who asked for it."""
    cache = SectionCache(bytes_max=30)
    cache.put((0, "ids"), bytes(10))
    cache.put((1, "ids"), bytes(99))
    assert _held(cache, 2) == [1]
    cache.put((2, "ids"), bytes(30))
    assert _held(cache, 3) == [2]


def test_a_section_that_is_put_twice_counts_once() -> None:
    """Two threads that miss the same section both put it; the cache does not shrink by that."""
    cache = SectionCache(bytes_max=30)
    for _ in range(5):
        cache.put((0, "ids"), bytes(10))
    for number in (1, 2):
        cache.put((number, "ids"), bytes(10))
    assert _held(cache, 3) == [0, 1, 2]


def test_an_emptied_cache_holds_as_much_as_a_new_one() -> None:
    """Nothing that was forgotten is counted."""
    cache = SectionCache(bytes_max=30)
    for _ in range(2):
        cache.clear()
        assert _held(cache, 3) == []
        for number in range(3):
            cache.put((number, "ids"), bytes(10))
        assert _held(cache, 3) == [0, 1, 2]
