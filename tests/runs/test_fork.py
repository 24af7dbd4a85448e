"""Forks: a new run with an old one's beginning, proven by its link, and the old one is kept for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick import Store, errors, runs, state
from tallystick.runs import journal
from tallystick.store.verify import verify


@pytest.fixture
def forked(bench: Any, store: Store) -> runs.RunState:
    """The example, forked where `total` was begun."""
    runs.start(store, bench.counting(), run="monday", workspace=bench.workspace, inputs=bench.inputs)
    return runs.fork(store, "monday", "total", child="fork", workspace=str(bench.root / "fork"))


def test_a_fork_has_what_was_finished_before_it(bench: Any, store: Store, forked: runs.RunState) -> None:
    """RUN-06: nodes that had finished are inherited, the others are to be done; the parent is named by its link."""
    done = {item.node: (item.state, item.inherited_from) for item in forked.work_items}
    assert done["screen"] == ("finished", "run/monday")
    assert done["total"] == done["report"] == ("pending", None)
    assert forked.parent is not None
    event = store.read_stream("run/monday", after=forked.parent.seq - 1, limit=1)[0]
    assert (forked.parent.stream, forked.parent.link) == ("run/monday", event.link.hex())


def test_a_fork_goes_its_own_way(bench: Any, store: Store, forked: runs.RunState) -> None:
    """RUN-06: only what was left runs, both runs keep their files, and both replay."""
    before = bench.counted()
    parent = snapshot_of(store, "monday")
    state = runs.resume(store, bench.counting(), "fork")
    ran = {node: count - before[node] for node, count in bench.counted().items() if count != before[node]}
    assert ran == {"total": 1, "report": 1}
    assert state.run_state == "finished"
    assert (bench.root / "fork" / "report.md").read_bytes() == bench.file("report.md").read_bytes()
    assert snapshot_of(store, "monday") == parent
    assert runs.replay(store, "fork").equal
    assert verify(store.log).ok


def snapshot_of(store: Store, run: str) -> bytes:
    """The bytes of a replay."""
    from tallystick.runs import snapshot

    return snapshot.encode(runs.load(store, run).state)


def test_a_fork_of_a_fork_reaches_back(bench: Any, store: Store, forked: runs.RunState) -> None:
    """RUN-04: the history before a fork is read from its parents, however many there are."""
    flow = bench.counting()
    runs.resume(store, flow, "fork")
    again = runs.fork(store, "fork", "report", child="again", workspace=str(bench.root / "again"))
    assert [item.state for item in again.work_items].count("finished") == 5
    assert runs.resume(store, flow, "again").run_state == "finished"
    assert bench.counted()["report"] == 3
    assert runs.replay(store, "again").equal


def test_files_that_changed_since_are_made_again(bench: Any, store: Store) -> None:
    """RUN-07: an artifact of the parent that is no longer what it was is not taken over."""
    flow = bench.counting()
    runs.start(store, flow, run="monday", workspace=bench.workspace, inputs=bench.inputs)
    Path(bench.workspace, "fields.json").write_text("[]")
    runs.fork(store, "monday", "total", child="fork", workspace=str(bench.root / "fork"))
    before = bench.counted()
    runs.resume(store, flow, "fork")
    ran = {node for node, count in bench.counted().items() if count != before[node]}
    assert ran == {"extract", "screen", "total", "report"}


@pytest.mark.parametrize("node", ["nobody", "report"])
def test_a_fork_needs_a_node_that_was_begun(bench: Any, store: Store, node: str) -> None:
    """RUN-08: there is no history up to something that never happened."""

    def broken(work: Any) -> None:
        raise ValueError("no")

    flow = bench.counting()
    flow.nodes["total"] = __import__("msgspec").structs.replace(flow.nodes["total"], function=broken)
    with pytest.raises(errors.RunFault):
        runs.start(store, flow, run="monday", workspace=bench.workspace, inputs=bench.inputs)
    with pytest.raises(errors.ForkImpossible, match=node):
        runs.fork(store, "monday", node, child="fork")
    assert store.stream_head("run/fork") is None


def test_a_fork_does_not_take_the_name_of_a_run(bench: Any, store: Store, forked: runs.RunState) -> None:
    """RUN-01: the child's id must be free."""
    for name in ("fork", "monday"):
        with pytest.raises(errors.RunExists):
            runs.fork(store, "monday", "total", child=name)


@pytest.mark.parametrize("engine", ["sqlite", "files", "memory"])
def test_a_parent_cannot_be_pruned(make_bench: Any, flow: Any, engine: str) -> None:
    """EVT-03: a control fact about the parent says who has its history there, and pruning refuses."""
    bench = make_bench("fork", engine)
    with bench.open() as store:
        runs.start(store, flow, run="monday", workspace=bench.workspace, inputs=bench.inputs)
        runs.fork(store, "monday", "total", child="fork", workspace=str(bench.root / "fork"))
        plan = state.prune_plan.plan(store, "run/monday", before=10, accept=True)
        assert any("run/fork" in reason for reason in plan.refusals)
        free = state.prune_plan.plan(store, "run/fork", before=2, accept=True)
        assert not any("forked" in reason for reason in free.refusals)


def test_a_parent_with_another_history_is_refused(bench: Any, store: Store, flow: Any) -> None:
    """RUN-04: a fork whose parent is not the one it was made of cannot be replayed, and says so."""
    runs.start(store, flow, run="monday", workspace=bench.workspace, inputs=bench.inputs)
    parent = runs.facts.Parent(stream="run/monday", seq=5, link="0" * 64, node="total")
    made = journal.Journal(store, "fake", journal.inherited(store, "fake", real(store)))
    made.record([runs.facts.RunCreated(workflow="invoices", parent=parent)])
    with pytest.raises(errors.ForkImpossible, match="another history"):
        runs.load(store, "fake")


def real(store: Store) -> Any:
    """The parent as it is."""
    event = store.read_stream("run/monday", after=4, limit=1)[0]
    return runs.facts.Parent(stream="run/monday", seq=5, link=event.link.hex(), node="total")
