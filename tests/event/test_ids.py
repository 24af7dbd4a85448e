"""Event ids: UUIDv7, rising, unique, and the same 128 bits as a ULID."""

from __future__ import annotations

import os
import threading
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick import errors
from tallystick.event import ids
from tallystick.testing.clock import START

MS = 1_000_000


def test_ids_are_uuid7_of_their_time() -> None:
    """LH-03: version 7, the RFC's variant, and the milliseconds of the clock in front."""
    found = uuid.UUID(bytes=ids.Minter().mint(1, time_ns=START)[0])
    assert (found.version, found.variant) == (7, uuid.RFC_4122)
    assert found.int >> 80 == START // MS


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 50)), max_size=20))
def test_ids_rise_also_when_the_clock_goes_back(steps: list[tuple[int, int]]) -> None:
    """LH-03: within a process each id is greater than all before it, whatever the clock does."""
    minter, now, found = ids.Minter(), START, list[bytes]()
    for step, count in steps:
        now += step * MS
        found += minter.mint(count, time_ns=now)
    assert found == sorted(set(found))
    assert all(uuid.UUID(bytes=item).version == 7 for item in found)


def test_ids_rise_when_a_millisecond_is_full() -> None:
    """LH-03: when the numbers of a millisecond run out the next one is begun."""
    minter = ids.Minter()
    first = minter.mint(1, time_ns=START)[0]
    minter._next |= (1 << 62) - 3
    found = [first, *minter.mint(10, time_ns=START)]
    assert found == sorted(set(found))
    assert all(uuid.UUID(bytes=item).variant == uuid.RFC_4122 for item in found)


@pytest.mark.parametrize("now", [0, -1, -(10**18), (1 << 63) - 1])
def test_odd_clocks_give_ids(now: int) -> None:
    """A clock before 1970 or at the end of int64 still gives valid ids."""
    found = ids.Minter().mint(2, time_ns=now)
    assert found == sorted(set(found))
    assert all(uuid.UUID(bytes=item).version == 7 for item in found)


def test_threads_share_a_minter() -> None:
    """No id is given twice."""
    minter, found = ids.Minter(), list[bytes]()

    def work() -> None:
        for _ in range(200):
            found.extend(minter.mint(3, time_ns=START))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 4 * 200 * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_go_on_with_its_parents_numbers() -> None:
    """Parent and child mint different ids at the same instant."""
    ids.default.mint(1, time_ns=START)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"".join(ids.default.mint(100, time_ns=START)))
        os._exit(0)
    os.close(writing)
    own = ids.default.mint(100, time_ns=START)
    with os.fdopen(reading, "rb") as pipe:
        theirs = pipe.read()
    os.waitpid(child, 0)
    assert len(theirs) == 1600
    assert not set(own) & {theirs[at : at + 16] for at in range(0, 1600, 16)}


@given(st.binary(min_size=16, max_size=16))
def test_an_id_is_the_same_in_every_writing(value: bytes) -> None:
    """COM-01: bytes, UUID, text with and without dashes and ULID are one id, and keep its order."""
    ulid = ids.to_ulid(value)
    assert (len(ulid), ids.from_ulid(ulid)) == (26, value)
    for writing in (value, uuid.UUID(bytes=value), ids.to_text(value), value.hex(), value.hex().upper(), ulid):
        assert ids.to_bytes(writing) == value


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_ulids_sort_as_their_bytes(one: bytes, two: bytes) -> None:
    """COM-01: the order of ids is the order of their ULIDs."""
    assert (one < two) == (ids.to_ulid(one) < ids.to_ulid(two))


NO_IDS = ("", "x" * 26, "8" + "0" * 25, "0" * 25, "I" * 26, " " + "1" * 31, "1_1" + "1" * 29, "{" + "1" * 34 + "}")
NO_IDS += ("+" + "1" * 31, "urn:uuid:" + "1" * 27, "1-" * 18, "１" * 32, "1" * 32 + "\n")


@pytest.mark.parametrize("value", NO_IDS)
def test_text_that_is_no_id_is_refused(value: str) -> None:
    """Only the two forms of a UUID and a ULID are read; nothing is stripped or guessed."""
    with pytest.raises(errors.InvalidValue):
        ids.to_bytes(value)


@pytest.mark.parametrize("now", [-1, -MS, -(10**18)])
def test_before_1970_ids_say_1970(now: int) -> None:
    """The form has no place for a negative time: the milliseconds are zero."""
    assert ids.Minter().mint(1, time_ns=now)[0][:6] == bytes(6)
