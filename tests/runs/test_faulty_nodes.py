"""Nodes that do what they should not: it is their failure, and never that of the run's log."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tallystick import Store, errors, runs
from tallystick.runs import Workflow, code


def alone(function: Callable[..., Any], **options: Any) -> Workflow:
    """A workflow of one node."""
    flow = Workflow("alone")
    flow.add("a", function, **options)
    return flow


@pytest.mark.parametrize(
    "fault",
    [
        lambda work: work.resolve_issue("nobody opened this", "how"),
        lambda work: work.open_issue("", "no code"),
        lambda work: work.open_issue("Code", "text\0"),
        lambda work: work.open_issue("Code", "m" * 2_000_000),
        lambda work: work.open_issue("Code", "text", severity="loud"),
        lambda work: sys.exit(0),
    ],
    ids=["resolved-unknown", "no-code", "zero-byte", "too-long", "no-such-severity", "exit"],
)
def test_a_faulty_node_does_not_destroy_the_log(bench: Any, store: Store, fault: Callable[..., Any]) -> None:
    """RUN-02, RUN-09: it is a failed attempt with a trail; the run replays, and goes on when the node is corrected."""
    with pytest.raises(errors.RunFault):
        runs.start(store, alone(fault), run="r", workspace=bench.workspace)
    state = runs.load(store, "r").state
    assert (state.run_state, state.work_items[0].history[0].status) == ("failed", "failed")
    assert runs.replay(store, "r").equal
    done = runs.resume(store, alone(lambda work: None), "r", rerun_changed=True)
    assert done.run_state == "finished"


def test_an_issue_of_a_node_before_can_be_resolved(bench: Any, store: Store) -> None:
    """RUN-02: what is recorded may be resolved by any node; what is opened here, here."""

    def second(work: Any) -> None:
        work.resolve_issue("a#1.1", "seen to")
        work.resolve_issue(work.open_issue("Mine", "mine"), "at once")

    flow = alone(lambda work: work.open_issue("First", "of a"))
    flow.add("b", second, after=["a"])
    state = runs.start(store, flow, run="r", workspace=bench.workspace)
    assert [(issue.code, issue.state) for issue in state.issues] == [("First", "resolved"), ("Mine", "resolved")]
    assert runs.replay(store, "r").equal


def test_what_a_node_does_to_its_parameters_is_not_recorded(shelf: Any) -> None:
    """RUN-03, RUN-04: the snapshot says what was declared, and a second attempt is given the same as the first."""
    given: list[list[int]] = []

    def greedy(work: Any) -> None:
        given.append(list(work.params["numbers"]))
        work.params["numbers"].append(1)
        if work.attempt == 1:
            raise ValueError("again")

    with shelf.open() as store:
        flow = alone(greedy, params={"numbers": []}, retries=1, backoff_ms=0)
        runs.start(store, flow, run="r")
        assert given == [[], []]
        found = runs.replay(store, "r")
        assert found.equal, found.reason
        assert runs.resume(store, flow, "r").run_state == "finished"


def test_an_artifact_that_is_not_declared_cannot_be_read(bench: Any, store: Store) -> None:
    """RUN-07: what is read without being declared could not make its reader stale."""
    flow = Workflow("secretly")
    flow.add("a", lambda work: work.write("x", "1"), outputs=["x"])
    flow.add("b", lambda work: work.text("x"), after=["a"])
    with pytest.raises(errors.RunFault, match="is not declared by this node"):
        runs.start(store, flow, run="r", workspace=bench.workspace)


def test_names_that_could_not_be_recorded_are_refused_at_once() -> None:
    """RUN-08: a run must not begin that could not write down how a node ended."""
    flow = Workflow("names")
    for name in ("n" * 161, "", "two\nlines"):
        with pytest.raises(errors.WorkflowInvalid):
            flow.add(name, print)
    for section in ("", "s" * 201, "a\0b"):
        with pytest.raises(errors.WorkflowInvalid):
            flow.add("node", print, section=section)
    for path in ("a\0b", "p" * 201):
        with pytest.raises(errors.WorkflowInvalid):
            flow.add("node", print, outputs=[runs.Artifact("x", path)])


def test_a_module_that_exits_is_no_success(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-08: `sys.exit(0)` while a workflow is loaded is a refusal by name."""
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(errors.NotLoadable, match="SystemExit"):
        code.load("exits:flow")


@dataclass
class Doubler:
    """A node that is an object, without a hash of its own."""

    factor: int = 2

    def __call__(self, work: Any) -> None:
        """Do nothing."""


def test_the_version_of_what_is_no_function() -> None:
    """RUN-10: of a partial its function and what it is given, of an object its class; addresses do not count."""

    def one(value: Any, work: Any) -> int:
        return 1

    def two(value: Any, work: Any) -> int:
        return 2

    versions = [code.version(functools.partial(f, v), {}) for f, v in ((one, 1), (one, 2), (two, 1))]
    assert len(set(versions)) == 3
    assert code.version(functools.partial(one, object()), {}) == code.version(functools.partial(one, object()), {})
    assert code.version(Doubler(), {}) == code.version(Doubler(), {}) != code.version(one, {})


def test_a_second_runner_on_the_same_handle_is_refused(bench: Any, store: Store) -> None:
    """RUN-08: the lease belongs to the handle; a thread beside the runner must not take a living session for lost."""
    begun, go_on = threading.Event(), threading.Event()
    ran: list[int] = []

    def slow(work: Any) -> None:
        ran.append(work.attempt)
        begun.set()
        assert go_on.wait(30)

    flow = alone(slow)
    first = threading.Thread(target=lambda: runs.start(store, flow, run="r", workspace=bench.workspace))
    first.start()
    try:
        assert begun.wait(30)
        with pytest.raises(errors.LeaseHeld):
            runs.resume(store, flow, "r")
    finally:
        go_on.set()
        first.join()
    state = runs.resume(store, flow, "r")
    assert (ran, state.run_state, [session.status for session in state.sessions]) == ([1], "finished", ["finished"])


def test_issues_stand_in_the_same_order_whoever_was_first(bench: Any, store: Store) -> None:
    """RUN-08: side by side or in turn, the recorded state is the same but for times."""
    second_done = threading.Event()

    def flow(parallel: bool) -> Workflow:
        def slow(work: Any) -> None:
            assert not parallel or second_done.wait(30)
            work.open_issue("A", "slow")

        def quick(work: Any) -> None:
            work.open_issue("B", "quick")

        made = Workflow("order")
        made.add("slow", slow)
        made.add("quick", quick)
        made.add("after", lambda work: second_done.set(), after=["quick"])
        return made

    in_turn = runs.start(store, flow(False), run="a", workspace=bench.workspace)
    runner = runs.RunnerInfo(parallel=2)
    second_done.clear()
    beside = runs.start(store, flow(True), run="b", workspace=bench.workspace, runner=runner)
    assert [issue.issue for issue in in_turn.issues] == [issue.issue for issue in beside.issues]
    assert runs.replay(store, "b").equal
