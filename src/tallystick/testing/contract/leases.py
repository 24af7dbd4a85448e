"""Contract: one writer per run. A lease has a number, and a writer that lost it is fenced off, whatever it expects."""

from __future__ import annotations

import pytest

from tallystick import ANY, NO_STREAM, Store, errors
from tallystick.store.capabilities import ANY_STREAM, DURABLE
from tallystick.testing.builders import event, named
from tallystick.testing.contract.harness import Contract, EngineHarness, needs


def _second_handle(harness: EngineHarness) -> Store | None:
    """Another writing handle, or None if the lock of the whole store prevents one."""
    if harness.many_writers:
        return harness.open()
    with pytest.raises(errors.StoreLocked):
        harness.open()
    return None


def _taken_over(harness: EngineHarness, stream: str) -> tuple[Store, Store]:
    """A live handle that held a lease, and one that took it over, as after a long pause."""
    old = harness.open()
    old.append(stream, event(1))
    new = harness.open()
    new.acquire_lease(stream, steal=True)
    return old, new


class LeaseContract(Contract):
    """Writer leases of `run/…` streams."""

    def test_a_handle_keeps_its_lease_over_many_appends(self, store: Store) -> None:
        """EVT-09: the first append takes the lease. Later appends and an explicit acquire use it."""
        store.append("run/a", event())
        store.acquire_lease("run/a")
        store.append("run/a", event())
        store.release_lease("run/a")
        store.append("run/a", event())
        store.acquire_lease("run/b")
        store.append("run/b", event())
        assert [(info.stream, info.seq) for info in store.streams()] == [("run/a", 3), ("run/b", 1)]

    @needs(DURABLE)
    def test_a_second_writer_is_refused_while_the_first_lives(self, harness: EngineHarness) -> None:
        """EVT-09: an append without the lease is refused, whatever its expectation, and the error names the holder."""
        harness.open().append("run/a", event())
        second = _second_handle(harness)
        if second is not None:
            for expected in (ANY, 1, NO_STREAM + 1):
                with pytest.raises(errors.LeaseHeld) as refused:
                    second.append("run/a", event(), expected=expected)
                assert refused.value.number == 1
            with pytest.raises(errors.LeaseHeld):
                second.acquire_lease("run/a")
            assert len(second.read_stream("run/a")) == 1

    @needs(DURABLE, ANY_STREAM)
    def test_a_lease_is_for_its_run_alone(self, harness: EngineHarness) -> None:
        """EVT-09: other runs, and streams that are not runs, are free for a second handle."""
        first = harness.open()
        first.append("run/a", event())
        second = _second_handle(harness)
        if second is not None:
            second.append("run/b", event())
            first.append("order/1", event())
            second.append("order/1", event())
            with pytest.raises(errors.LeaseHeld):
                first.append("run/b", event())

    @needs(DURABLE)
    def test_after_a_close_the_next_writer_gets_a_higher_number(self, harness: EngineHarness) -> None:
        """EVT-09: every take-over raises the fencing number, also over reopening."""
        for _ in range(2):
            with harness.open() as store:
                store.append("run/a", event())
        holder = harness.open()
        holder.append("run/a", event())
        other = _second_handle(harness)
        if other is not None:
            with pytest.raises(errors.LeaseHeld) as refused:
                other.append("run/a", event())
            assert refused.value.number == 3

    @needs(DURABLE)
    def test_a_released_lease_is_free(self, harness: EngineHarness) -> None:
        """EVT-09: another handle can take a released lease at once."""
        first = harness.open()
        first.append("run/a", event(1))
        first.release_lease("run/a")
        second = _second_handle(harness)
        if second is not None:
            second.append("run/a", event(2), expected=1)
            with pytest.raises(errors.LeaseHeld):
                first.append("run/a", event(3))

    @needs(DURABLE)
    def test_a_fenced_writer_is_refused(self, harness: EngineHarness) -> None:
        """EVT-09: a writer whose lease was taken over is refused by number until it acquires the lease again."""
        if not harness.many_writers:
            return  # the lock of the whole store ends with its holder, so there is nobody to wake up
        old, new = _taken_over(harness, "run/a")
        new.append("run/a", event(2), expected=1)
        for expected in (ANY, 2):
            with pytest.raises(errors.LeaseLost) as refused:
                old.append("run/a", event(3), expected=expected)
            assert (refused.value.held, refused.value.number) == (1, 2)
        new.close()
        with pytest.raises(errors.LeaseLost):
            old.append("run/a", event(3))
        old.acquire_lease("run/a")
        assert old.append("run/a", event(3), expected=2).seq == 3

    @needs(DURABLE)
    def test_a_refused_request_for_a_lease_does_not_lift_the_fence(self, harness: EngineHarness) -> None:
        """EVT-09: a refused request for the lease leaves a fenced writer fenced."""
        if not harness.many_writers:
            return
        old, new = _taken_over(harness, "run/a")
        new.append("run/a", event(2))
        with pytest.raises(errors.LeaseHeld):
            old.acquire_lease("run/a")
        new.close()
        with pytest.raises(errors.LeaseLost):
            old.append("run/a", event(3))

    @needs(DURABLE)
    def test_a_second_acquire_does_not_lift_the_fence(self, harness: EngineHarness) -> None:
        """EVT-09: a holder that acquired its lease twice is fenced off like any other."""
        if not harness.many_writers:
            return
        old = harness.open()
        old.append("run/a", event(1))
        old.acquire_lease("run/a")
        with harness.open() as new:
            new.acquire_lease("run/a", steal=True)
        with pytest.raises(errors.LeaseLost):
            old.append("run/a", event(3))

    @needs(DURABLE)
    def test_a_retry_needs_no_lease(self, harness: EngineHarness) -> None:
        """A stored append is confirmed to anyone who sends it again. Nothing is written, so nothing is fenced."""
        holder = harness.open()
        done = holder.append("run/a", named(1))
        other = _second_handle(harness)
        if other is not None:
            assert other.append("run/a", named(1)).link == done.link

    def test_only_runs_have_leases(self, store: Store) -> None:
        """A lease on anything except a run with a valid name is refused."""
        for stream in ("order/1", "run", "run/A", "", "run/a\n"):
            with pytest.raises(errors.InvalidInput):
                store.acquire_lease(stream)
            with pytest.raises(errors.InvalidInput):
                store.release_lease(stream)
