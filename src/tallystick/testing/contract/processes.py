"""Contract: other processes. They share a store if the engine allows it, and are refused by name if not."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from tallystick import Store, errors
from tallystick.store.capabilities import ANY_STREAM, DURABLE
from tallystick.store.verify import verify
from tallystick.testing.builders import event
from tallystick.testing.contract.harness import Contract, EngineHarness, needs
from tallystick.testing.contract.other_process import OtherProcess

CHILDREN, CHILD_SECONDS = 4, 60
IN_CHILD: dict[str, Callable[[Store], object]] = {
    "append": lambda store: store.append("run/a", event()),
    "read": lambda store: store.read_stream("run/a", limit=1),
    "head": lambda store: store.head(),
    "wait": lambda store: store.wait(0, timeout=0),
}


def _refused_in_child(store: Store) -> int:
    """Fork. The status of the child is 0 if everything it asks of the store is refused at once."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.alarm(CHILD_SECONDS)  # one that hangs is killed by it
    try:
        for act in IN_CHILD.values():
            try:
                act(store)
                os._exit(1)
            except errors.StoreFailed as problem:
                if "inherited" not in problem.message:
                    os._exit(2)
        store.close()
        os._exit(0)
    finally:
        os._exit(3)


class ProcessContract(Contract):
    """Several processes on one store."""

    @needs(DURABLE)
    @pytest.mark.security
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    @pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
    def test_a_forked_child_is_refused_and_leaves_its_parent_alone(self, harness: EngineHarness) -> None:
        """SAFE-04: a child that inherits a handle is refused at once, whatever its parent does."""
        store = harness.open()
        store.append("run/a", event())
        ending, done = threading.Event(), list[int]()

        def appends() -> None:
            while not ending.is_set():
                done.append(store.append("run/a", event()).seq)

        thread = threading.Thread(target=appends)
        thread.start()
        try:
            ended = [_refused_in_child(store) for _ in range(CHILDREN)]
        finally:
            ending.set()
            thread.join(CHILD_SECONDS)
        assert ended == [0] * CHILDREN
        assert not thread.is_alive()
        assert [found.seq for found in store.read_stream("run/a")] == [1, *done]

    @needs(DURABLE, ANY_STREAM)
    def test_writers_in_several_processes_share_or_are_refused(self, harness: EngineHarness) -> None:
        """EVT-09, CP-02: the appends of many writers add up to the seq. Where there is one, others get StoreLocked."""
        store = harness.open()
        if not harness.many_writers:
            with OtherProcess("try", harness.url) as other:
                assert other.said == "StoreLocked"
            store.close()
            with OtherProcess("try", harness.url) as other:
                assert other.said == "opened"
            return
        with (
            OtherProcess("compete", harness.url, "order/a", 40) as one,
            OtherProcess("compete", harness.url, "order/a", 40) as two,
        ):
            one.go()
            two.go()
            wins = one.answer() + two.answer()
        assert [found.seq for found in store.read_stream("order/a")] == list(range(1, wins + 1))
        assert wins >= 40
        assert verify(store.log).ok

    @needs(DURABLE)
    def test_a_reader_in_another_process_follows(self, harness: EngineHarness) -> None:
        """EVT-06: a process that opened read-only sees every event the writer appends, in order."""
        store = harness.open()
        store.append("run/a", event(0))
        with OtherProcess("follow", harness.url, 20) as other:
            assert other.said == "ready"
            for number in range(1, 20):
                store.append("run/a", event(number))
            assert other.answer() == list(range(20))

    @needs(DURABLE)
    def test_a_run_is_free_again_when_its_writer_was_killed(self, harness: EngineHarness) -> None:
        """EVT-09: a run is held while its writer is alive, and taken over with a higher number after it died."""
        with OtherProcess("hold", harness.url, "run/a") as other:
            assert other.said == 1
            expected = errors.LeaseHeld if harness.many_writers else errors.StoreLocked
            with pytest.raises(expected) as refused:
                harness.open().append("run/a", event())
            assert str(other.process.pid) in str(refused.value)
            other.kill()
            store = harness.open()
            assert store.append("run/a", event(), expected=1).seq == 2
        if harness.many_writers:
            with pytest.raises(errors.LeaseHeld) as refused:
                harness.open().append("run/a", event())
            assert getattr(refused.value, "number", 0) == 2
