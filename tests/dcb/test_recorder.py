"""The recorder tests of `eventsourcing`, which its own recorders pass, over our engines."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBAppendCondition, DCBEvent, DCBQuery, DCBQueryItem
from eventsourcing.dcb.tests import DCBRecorderTestCase
from eventsourcing.persistence import IntegrityError

import tallystick
from tallystick.store.verify import verify
from tallystick.testing import postgres
from tests.dcb.recorder import TallyRecorder

EARLIER = 5


class Case(DCBRecorderTestCase):
    """Their test case, whose parts are called one by one."""

    __test__ = False

    def runTest(self) -> None:  # noqa: N802 - their name
        """Nothing: pytest calls the parts."""


@pytest.fixture(params=["memory", "files", "sqlite", "postgres"])
def recorder(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[TallyRecorder]:
    """A recorder over a new store of each engine."""
    with ExitStack() as stack:
        if request.param == "postgres":
            url = str(stack.enter_context(postgres.database()))
        else:
            url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path}/log"
        store = stack.enter_context(tallystick.open(url))
        yield TallyRecorder(store)
        assert verify(store.log).ok


@pytest.mark.parametrize("part", ["_test_append_read", "_test_append_subscribe"])
def test_their_recorder_tests_pass(recorder: TallyRecorder, part: str) -> None:
    """TAG-05: reading, appending with conditions, and subscribing, on a new log."""
    getattr(Case(), part)(recorder)


def test_they_pass_after_other_events(recorder: TallyRecorder) -> None:
    """TAG-05: events that were there before are no part of the test, and change nothing."""
    for number in range(EARLIER):
        recorder.append([DCBEvent("earlier", b"", [f"n:{number}"])])
    Case()._test_append_subscribe(recorder, initial_position=EARLIER)


def test_both_parts_run() -> None:
    """TAG-05: if a version of theirs has more parts, they are called here too, or this fails."""
    parts = {name for name in vars(DCBRecorderTestCase) if name.startswith(("test", "_test"))}
    assert parts == {"_test_append_read", "_test_append_subscribe"}


def test_of_many_threads_one_takes_each_seat(recorder: TallyRecorder) -> None:
    """TAG-05: decisions of many threads by their API: each seat of each course is taken once."""

    def take(student: int) -> int:
        taken = 0
        for course in range(3):
            query = DCBQuery([DCBQueryItem(["taken"], [f"course:{course}"])])
            for _ in range(20):
                seen = recorder.read(query)
                if len(list(seen)) >= 5:
                    break
                event = DCBEvent("taken", b"", [f"course:{course}", f"student:{student}"])
                try:
                    recorder.append([event], DCBAppendCondition(query, seen.head))
                except IntegrityError:
                    continue
                taken += 1
                break
        return taken

    with ThreadPoolExecutor(8) as threads:
        taken = sum(threads.map(take, range(16)))
    found = [
        event for course in range(3) for event in recorder.read(DCBQuery([DCBQueryItem([], [f"course:{course}"])]))
    ]
    assert taken == len(found) == 15
