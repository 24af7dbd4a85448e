"""If the connection is lost while a command or a prune commits, it happens once, and the caller learns the outcome."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallystick import NewEvent, Store, errors
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.maintenance import Maintenance
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing import upkeep

from .test_lost_commit import MARK, CuttingProxy, proxy, through

__all__ = ["proxy", "through"]

KEY = CommandKey("acme", "u1", "POST /orders", "k1")


def _request(count: int) -> Request:
    new = [NewEvent(MARK, {"n": n}) for n in range(count)]
    return Request([Part("order/b", new)], command=CommandRecord(KEY, b"h" * 32, b"{}", 1))


@pytest.mark.parametrize("delivered", [True, False], ids=["committed", "never arrived"])
@pytest.mark.parametrize("size", [1, 3])
def test_a_command_whose_outcome_was_lost_ran_once(
    proxy: CuttingProxy, through: Store, reopen: Callable[..., Store], size: int, delivered: bool
) -> None:
    """CP-05, CP-06: its own record does not count as a repetition; the next command under its key does."""
    proxy.delivered = delivered
    proxy.cut_at = MARK.encode() if size == 1 else b"COMMIT"
    (outcome,) = through.submit([_request(size)])
    assert isinstance(outcome, list), outcome
    assert (proxy.cuts, outcome[0].first_seq, outcome[0].last_seq, outcome[0].stored) == (1, 1, size, 0)
    other = reopen()
    assert len(other.read_stream("order/b")) == size
    record = other.log.commands.load(KEY)
    assert record is not None
    assert record.ranges == (("order/b", 1, size),)
    (again,) = through.submit([_request(size)])
    assert isinstance(again, errors.CommandRepeated)


@pytest.mark.parametrize("delivered", [True, False], ids=["committed", "never arrived"])
@pytest.mark.parametrize("size", [1, 3])
def test_a_command_that_another_ran_is_repeated_all_the_same(
    proxy: CuttingProxy, through: Store, reopen: Callable[..., Store], size: int, delivered: bool
) -> None:
    """CP-06: a record of another command is a repetition, also after the connection was lost."""
    reopen().submit([_request(2)])
    proxy.delivered = delivered
    proxy.cut_at = MARK.encode() if size == 1 else b"COMMIT"
    (outcome,) = through.submit([_request(size)])
    assert isinstance(outcome, errors.CommandRepeated)
    assert (proxy.cuts, len(through.read_stream("order/b"))) == (1, 2)


@pytest.mark.parametrize("delivered", [True, False], ids=["committed", "never arrived"])
def test_a_prune_whose_outcome_was_lost_happened_once(proxy: CuttingProxy, through: Store, delivered: bool) -> None:
    """CP-05, EVT-07: snapshot, cut, requirement and facts are confirmed or written."""
    through.append("order/b", [NewEvent("thing.done", {}) for _ in range(4)])
    made, cut = upkeep.snapshot_of(through, "order/b", b"{}"), upkeep.cut_of(through, "order/b", 3)
    both = [upkeep.snapshot_fact(made), upkeep.pruned_fact(cut)]
    proxy.delivered = delivered
    proxy.cut_at = b"COMMIT"
    done = through.record(both, require=[("order/b", 4)], maintenance=Maintenance(snapshots=(made,), cuts=(cut,)))
    assert (proxy.cuts, done[0].last_seq) == (1, 2)
    assert (through.cut("order/b"), through.log.snapshots.ids()) == (cut, [made.id])
    assert len(through.read_stream("tally.stream/order:b")) == 2
    assert verify(through.log).problems == []
