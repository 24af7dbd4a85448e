"""What a runner refuses: bad graphs, missing files, names that lead elsewhere, a second runner, a full disk."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store, errors, runs
from tallystick.engines.disk import Disk
from tallystick.runs import Artifact, Workflow
from tallystick.testing.faults import Fault, FaultyFileSystem


def nothing(work: Any) -> None:
    """A node that makes nothing."""


def cycle() -> Workflow:
    """Two nodes that wait for each other, behind one that does not."""
    flow = Workflow("cycle")
    flow.add("first", nothing, outputs=["x"])
    flow.add("a", nothing, inputs=["x", "from b"], outputs=["from a"])
    flow.add("b", nothing, inputs=["from a"], outputs=["from b"])
    return flow


def unknown() -> Workflow:
    """A node that reads what nobody makes."""
    flow = Workflow("unknown")
    flow.add("a", nothing, inputs=["nowhere"])
    return flow


def unknown_after() -> Workflow:
    """A node that waits for one that does not exist."""
    flow = Workflow("unknown")
    flow.add("a", nothing, after=["nobody"])
    return flow


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (cycle, errors.GraphCycle, "a, b wait for each other"),
        (unknown, errors.ArtifactUnknown, "nowhere"),
        (unknown_after, errors.WorkflowInvalid, "nobody"),
        (lambda: Workflow("empty"), errors.WorkflowInvalid, "no nodes"),
    ],
    ids=["cycle", "unknown artifact", "unknown node", "no nodes"],
)
def test_a_bad_graph_is_refused_before_anything_is_written(store: Store, make: Any, error: Any, told: str) -> None:
    """RUN-08: the refusal names the nodes or the artifact, and there is no run afterwards."""
    with pytest.raises(error, match=told):
        runs.start(store, make(), run="r")
    assert list(runs.run_ids(store)) == []


@pytest.mark.parametrize(
    "declare",
    [
        lambda flow: flow.add("a", nothing),
        lambda flow: flow.add("b", nothing, outputs=["x"]),
        lambda flow: flow.add("b", nothing, outputs=[Artifact("other", "x")]),
        lambda flow: flow.input("x"),
        lambda flow: flow.add("", nothing),
        lambda flow: flow.add("b", nothing, retries=-1),
        lambda flow: flow.add("b", nothing, backoff_ms=1.5),
        lambda flow: flow.add("b", nothing, outputs=["../x"]),
        lambda flow: flow.add("b", nothing, outputs=["/x"]),
        lambda flow: flow.add("b", nothing, outputs=["a/../../x"]),
        lambda flow: flow.add("b", nothing, outputs=["c:x"]),
        lambda flow: flow.input("in", path="a\\b"),
    ],
)
def test_a_bad_declaration_is_refused(declare: Any) -> None:
    """RUN-03: names and files are taken once, and no file leaves the workspace."""
    flow = Workflow("w")
    flow.add("a", nothing, outputs=["x"])
    with pytest.raises(errors.WorkflowInvalid):
        declare(flow)


def test_a_missing_input_file_is_named(bench: Any, store: Store, flow: Any) -> None:
    """RUN-03: the run is not made; with a file that does not exist neither."""
    with pytest.raises(errors.InputMissing, match=r"inbox\.txt"):
        runs.start(store, flow, run="r", workspace=bench.workspace)
    with pytest.raises(errors.InputMissing, match="nowhere"):
        runs.start(store, flow, run="r", workspace=bench.workspace, inputs={"inbox.txt": "nowhere"})
    with pytest.raises(errors.ArtifactUnknown):
        runs.start(store, flow, run="r", workspace=bench.workspace, inputs={"x": "y"})
    assert list(runs.run_ids(store)) == []


@pytest.mark.parametrize("run", ["..", "../x", "a/b", "A", "", ".", "x\n", "a" * 192])
def test_a_run_id_that_is_no_name_is_refused(bench: Any, store: Store, flow: Any, run: str) -> None:
    """RUN-01: nothing is written, on no engine; an empty one is made up."""
    if not run:
        assert runs.start(store, flow, run=run, workspace=bench.workspace, inputs=bench.inputs).run_id
        return
    for act in (
        lambda: runs.start(store, flow, run=run, workspace=bench.workspace, inputs=bench.inputs),
        lambda: runs.resume(store, flow, run),
        lambda: runs.fork(store, "r", "a", child=run),
    ):
        with pytest.raises(errors.InvalidName):
            act()
    assert list(runs.run_ids(store)) == []


def test_a_run_is_made_once(bench: Any, store: Store, flow: Any) -> None:
    """RUN-01: starting it again is refused, and resuming one that is not there too."""
    runs.start(store, flow, run="r", workspace=bench.workspace, inputs=bench.inputs)
    with pytest.raises(errors.RunExists):
        runs.start(store, flow, run="r", workspace=bench.workspace, inputs=bench.inputs)
    with pytest.raises(errors.RunNotFound):
        runs.resume(store, flow, "other")


@pytest.mark.parametrize("engine", ["ndjson", "sqlite"])
def test_a_second_runner_is_refused(make_bench: Any, flow: Any, engine: str) -> None:
    """EVT-09: while one handle carries a run out, another is told who does, and writes nothing."""
    bench = make_bench("second", engine)
    refused = []

    def nosy(work: Any) -> None:
        with bench.open() as other:
            for act in (
                lambda: runs.resume(other, flow, "r"),
                lambda: other.append("run/r", NewEvent("NODE_REMOVED", {"node": "look"})),
            ):
                with pytest.raises(errors.LeaseHeld) as found:
                    act()
                refused.append(found.value.stream)

    looking = Workflow("looking")
    looking.add("look", nosy)
    with bench.open() as store:
        state = runs.start(store, looking, run="r", workspace=bench.workspace)
        assert runs.replay(store, "r").equal
    assert (state.run_state, refused) == ("finished", ["run/r", "run/r"])


def test_a_node_reaches_only_what_it_declares(bench: Any, store: Store) -> None:
    """RUN-07: what is not declared could not become stale; reading or writing it is a failure of the node."""
    flow = Workflow("sly")
    flow.add("a", lambda work: work.write("x", "1"), outputs=["x"])
    flow.add("b", lambda work: work.text("x"))
    flow.add("c", lambda work: work.write("y", "1"), outputs=["z"])
    with pytest.raises(errors.RunFault, match="ArtifactUnknown"):
        runs.start(store, flow, run="r", workspace=bench.workspace)


def test_a_node_that_does_not_make_its_output_fails(bench: Any, store: Store) -> None:
    """RUN-09: nothing is called finished that is not there."""
    flow = Workflow("lazy")
    flow.add("a", nothing, outputs=["x"])
    with pytest.raises(errors.RunFault, match="did not write its output 'x'"):
        runs.start(store, flow, run="r", workspace=bench.workspace)
    assert runs.load(store, "r").state.work_items[0].state == "failed"


def test_an_error_that_quotes_a_secret_is_withheld(bench: Any, store: Store) -> None:
    """CP-11: the trail is complete, and the secret is not in it."""
    secret = "AKIA" + "IOSFODNN7ABCDEFG"

    def leaky(work: Any) -> None:
        raise ValueError(f"cannot log in with {secret}")

    flow = Workflow("leaky")
    flow.add("a", leaky)
    with pytest.raises(errors.RunFault):
        runs.start(store, flow, run="r", workspace=bench.workspace)
    events = store.read_stream("run/r")
    assert secret.encode() not in b"".join(event.payload or b"" for event in events)
    assert runs.load(store, "r").state.work_items[0].history[0].error == "(withheld: it looks like a secret)"


def test_an_issue_whose_code_is_a_secret_does_not_stop_the_run(bench: Any, store: Store) -> None:
    """CP-11: the issue is recorded under another code, and the node after it is run."""
    secret = "AKIA" + "IOSFODNN7ABCDEFG"
    flow = Workflow("leaky")
    flow.add("a", lambda work: work.open_issue(secret, "look at this"))
    flow.add("b", nothing, after=["a"])
    runs.start(store, flow, run="r", workspace=bench.workspace)
    state = runs.load(store, "r").state
    assert [item.state for item in state.work_items] == ["finished", "finished"]
    assert [issue.code for issue in state.issues] == ["Withheld"]
    assert secret.encode() not in b"".join(event.payload or b"" for event in store.read_stream("run/r"))


def test_an_exception_that_cannot_say_what_it_is_fails_its_node_alone(bench: Any, store: Store) -> None:
    """RUN-08: the node is recorded as failed under the name of the exception's kind."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise LookupError("no words")

    def failing(work: Any) -> None:
        raise Mute

    flow = Workflow("mute")
    flow.add("a", failing)
    with pytest.raises(errors.RunFault, match="Mute"):
        runs.start(store, flow, run="r", workspace=bench.workspace)
    assert runs.load(store, "r").state.work_items[0].state == "failed"


def test_a_full_disk_stops_the_run_and_room_lets_it_go_on(make_bench: Any) -> None:
    """RUN-09, settled 16: wherever the disk fills up, the log is whole, and a resume repeats no finished node."""
    stopped = set()
    for nth in range(1, 100):
        bench = make_bench(f"full{nth}")
        files = FaultyFileSystem(Disk())
        flow = bench.counting()
        fault = Fault(operation="write", nth=nth, error=errno.ENOSPC, persistent=True, path_part="runs/r/")
        with tallystick.open(bench.url, filesystem=files) as store:
            files.inject(fault)
            with contextlib.suppress(errors.NoSpace, errors.StoreFailed):
                runs.start(store, flow, run="r", workspace=bench.workspace, inputs=bench.inputs)
                assert not files.fired
            done = not files.fired
            files.inject(None)
        if done:
            break
        with bench.open() as store:
            if store.stream_head("run/r") is None:
                continue
            finished = [item.node for item in runs.load(store, "r").state.work_items if item.state == "finished"]
            stopped.add(len(finished))
            before = bench.counted()
            assert runs.resume(store, flow, "r").run_state == "finished"
            assert all(bench.counted()[node] == before[node] == 1 for node in finished)
            assert runs.replay(store, "r").equal
    assert done
    assert stopped == {0, 1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    "intruder",
    [
        NewEvent("NODE_STARTED", {"node": "nobody", "attempt": 1, "session": "s"}),
        NewEvent("NODE_FINISHED", {"node": 5, "attempt": 1}),
        NewEvent("ISSUE_RESOLVED", {"issue": "none", "how": "x"}),
        NewEvent("RUN_STATE_CHANGED", {"state": "splendid"}),
    ],
    ids=lambda event: event.type,
)
def test_an_event_that_does_not_fit_is_named(bench: Any, store: Store, flow: Any, intruder: NewEvent) -> None:
    """RUN-05: a log that somebody else wrote to is refused by the seq of the event, and is not repaired."""
    state = runs.start(store, flow, run="r", workspace=bench.workspace, inputs=bench.inputs)
    store.append("run/r", intruder)
    with pytest.raises(errors.RunLogInvalid) as refused:
        runs.load(store, "r")
    assert refused.value.seq == state.seq + 1
    with pytest.raises(errors.SnapshotInvalid):
        runs.resume(store, flow, "r")


def test_a_stream_that_is_no_run_is_told_from_one(store: Store) -> None:
    """RUN-04: replay begins at RUN_CREATED and at nothing else."""
    store.append("run/r", NewEvent("thing.happened", {}))
    with pytest.raises(errors.RunLogInvalid, match="not RUN_CREATED"):
        runs.load(store, "r")
    assert list(runs.run_ids(store)) == []


@pytest.mark.parametrize(
    "reference", ["nothing", "no.such.module:flow", "examples.invoices:nothing", "os:path", ":", "x:"]
)
def test_a_workflow_that_cannot_be_loaded_is_named(reference: str) -> None:
    """RUN-08: the error says what was tried."""
    from tallystick.runs.code import load

    with pytest.raises(errors.NotLoadable):
        load(reference)


def test_bad_runner_info_is_refused() -> None:
    """RUN-10: who did it is a text that can be shown."""
    for wrong in ({"parallel": 0}, {"parallel": 1000}, {"parallel": "2"}, {"actor": "a\nb"}, {"worker": "\0"}):
        with pytest.raises(errors.InvalidValue):
            runs.RunnerInfo(**wrong)  # type: ignore[arg-type]


def test_files_stay_inside_the_workspace(bench: Any, store: Store, flow: Any) -> None:
    """RUN-03: after a run everything that was made lies in the workspace, and no temporary file is left."""
    runs.start(store, flow, run="r", workspace=bench.workspace, inputs=bench.inputs)
    names = {path.name for path in Path(bench.workspace).rglob("*")}
    assert names == {item.place for node in flow.nodes.values() for item in node.outputs} | {"inbox.txt"}
