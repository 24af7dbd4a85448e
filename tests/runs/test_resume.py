"""Resuming: failures, retries, changed inputs, changed code, force; finished work is not repeated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tallystick import Store, errors, runs
from tallystick.runs import Workflow


class Pipe:
    """A chain a -> b -> c beside a lonely d, whose nodes can be told to fail."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ran: list[str] = []
        self.failing: dict[str, int] = {}
        self.workspace = str(root / "files")
        Path(self.workspace).mkdir()
        self.write("in", "1")

    def write(self, name: str, text: str) -> None:
        """Put a file into the workspace."""
        Path(self.workspace, name).write_text(text)

    def flow(self, *, b_params: dict[str, Any] | None = None, retries: int = 0, more: bool = False) -> Workflow:
        """The workflow."""
        flow = Workflow("pipe")
        flow.input("in")
        flow.input("other")
        self.write("other", "x") if not Path(self.workspace, "other").exists() else None
        flow.add("a", self._node("a", "in"), inputs=["in"], outputs=["a.out"])
        flow.add("b", self._node("b", "a.out"), inputs=["a.out"], outputs=["b.out"], params=b_params, retries=retries)
        flow.add("c", self._node("c", "b.out"), inputs=["b.out"], outputs=["c.out"])
        flow.add("d", self._node("d", "other"), inputs=["other"], outputs=["d.out"])
        if more:
            flow.add("e", self._node("e", "c.out"), inputs=["c.out"], outputs=["e.out"])
        return flow

    def _node(self, name: str, source: str) -> Any:
        def node(work: Any) -> None:
            self.ran.append(name)
            if self.failing.get(name, 0):
                self.failing[name] -= 1
                raise ValueError(f"{name} does not want to")
            work.write(f"{name}.out", f"{name}({work.text(source)})")

        return node

    def taken(self) -> list[str]:
        """The nodes that ran since the last question."""
        ran, self.ran = self.ran, []
        return ran


@pytest.fixture
def pipe(tmp_path: Path) -> Pipe:
    """The chain."""
    return Pipe(tmp_path)


def start(store: Store, pipe: Pipe, **options: Any) -> runs.RunState:
    return runs.start(store, pipe.flow(**options), run="r", workspace=pipe.workspace)


def test_a_run_that_has_finished_is_left_alone(store: Store, pipe: Pipe) -> None:
    """RUN-06: resuming with nothing changed runs nothing and writes nothing."""
    state = start(store, pipe)
    assert pipe.taken() == ["a", "b", "c", "d"]
    assert runs.resume(store, pipe.flow(), "r").seq == state.seq
    assert pipe.taken() == []


def test_a_failure_leaves_a_trail_and_a_snapshot(shelf: Any, pipe: Pipe) -> None:
    """RUN-09: the error, the blocker issue, the state of the run and a final snapshot are there."""
    pipe.failing["b"] = 1
    with shelf.open() as store:
        with pytest.raises(errors.RunFault, match="b does not want to"):
            start(store, pipe)
        state = runs.load(store, "r").state
        assert (state.run_state, state.sessions[-1].status) == ("failed", "failed")
        assert [(issue.code, issue.severity, issue.state) for issue in state.issues] == [
            ("NodeFailed", "blocker", "open")
        ]
        assert [item.state for item in state.work_items] == ["finished", "failed", "pending", "pending"]
        found = runs.replay(store, "r")
        assert (found.equal, found.seq) == (True, state.seq)


def test_resume_goes_on_at_the_failed_node(store: Store, pipe: Pipe) -> None:
    """RUN-05, RUN-06: what had finished is not repeated, the issue is resolved, attempts are counted on."""
    pipe.failing["b"] = 1
    with pytest.raises(errors.RunFault):
        start(store, pipe)
    pipe.taken()
    state = runs.resume(store, pipe.flow(), "r")
    assert pipe.taken() == ["b", "c", "d"]
    assert [(item.node, item.attempts) for item in state.work_items] == [("a", 1), ("b", 2), ("c", 1), ("d", 1)]
    assert [issue.state for issue in state.issues] == ["resolved"]
    assert state.run_state == "finished"


def test_retries_back_off_and_are_recorded(store: Store, pipe: Pipe) -> None:
    """RUN-09: each attempt is an event with its error and the wait before the next, which doubles."""
    pipe.failing["b"] = 2
    waits: list[float] = []
    runner = runs.RunnerInfo(sleep=waits.append)
    state = runs.start(store, pipe.flow(retries=2), run="r", workspace=pipe.workspace, runner=runner)
    assert waits == [0.1, 0.2]
    history = state.work_items[1].history
    assert [(attempt.attempt, attempt.status) for attempt in history] == [(1, "failed"), (2, "failed"), (3, "finished")]
    assert history[0].error == "ValueError: b does not want to"
    assert state.run_state == "finished"


def test_a_changed_input_makes_what_follows_stale_and_nothing_else(store: Store, pipe: Pipe) -> None:
    """RUN-06, RUN-07: everything downstream is marked stale, with the reason, and made again."""
    start(store, pipe)
    pipe.taken()
    pipe.write("in", "2")
    state = runs.resume(store, pipe.flow(), "r")
    assert pipe.taken() == ["a", "b", "c"]
    assert Path(pipe.workspace, "c.out").read_text() == "c(b(a(2)))"
    stale = [event.data for event in store.read_stream("run/r") if event.type in ("NODE_STALE", "ARTIFACT_STALE")]
    assert [fact.get("node") or fact["artifact"] for fact in stale] == ["a", "a.out", "b", "b.out", "c", "c.out"]
    assert stale[0]["because"] == "artifact in changed"
    assert not any(entry.stale for entry in state.artifacts_index.values())


def test_an_artifact_changed_by_hand_is_kept_and_its_readers_run_again(store: Store, pipe: Pipe) -> None:
    """RUN-07: the new content counts as the artifact; its maker is not asked again."""
    start(store, pipe)
    pipe.taken()
    pipe.write("b.out", "by hand")
    runs.resume(store, pipe.flow(), "r")
    assert pipe.taken() == ["c"]
    assert Path(pipe.workspace, "c.out").read_text() == "c(by hand)"


def test_an_artifact_that_is_gone_is_made_again(store: Store, pipe: Pipe) -> None:
    """RUN-07: its maker and everything that follows from it."""
    start(store, pipe)
    pipe.taken()
    os.unlink(Path(pipe.workspace, "b.out"))
    runs.resume(store, pipe.flow(), "r")
    assert pipe.taken() == ["b", "c"]


def test_force_runs_a_node_again_and_what_follows(store: Store, pipe: Pipe) -> None:
    """RUN-06: the user's word is enough; a node that does not exist is refused."""
    start(store, pipe)
    pipe.taken()
    runs.resume(store, pipe.flow(), "r", force=["b"])
    assert pipe.taken() == ["b", "c"]
    with pytest.raises(errors.NodeFault, match="not a node"):
        runs.resume(store, pipe.flow(), "r", force=["z"])


def test_changed_code_is_named_and_asked_about(store: Store, pipe: Pipe) -> None:
    """RUN-10: other parameters or other source: the run says which nodes, and does nothing by itself."""
    start(store, pipe)
    pipe.taken()
    before = store.stream_head("run/r")
    with pytest.raises(errors.CodeChanged) as refused:
        runs.resume(store, pipe.flow(b_params={"x": 1}), "r")
    assert refused.value.nodes == "b (params)"
    assert store.stream_head("run/r") == before
    assert pipe.taken() == []


def test_accepted_changes_keep_what_was_made(store: Store, pipe: Pipe) -> None:
    """RUN-10: the new version is recorded, and no longer differs."""
    start(store, pipe)
    pipe.taken()
    changed = pipe.flow(b_params={"x": 1})
    state = runs.resume(store, changed, "r", accept_changes=True)
    assert pipe.taken() == []
    assert state.work_items[1].params == {"x": 1}
    runs.resume(store, changed, "r")


def test_changed_nodes_can_be_run_again(store: Store, pipe: Pipe) -> None:
    """RUN-06, RUN-07: they and what follows; nothing else."""
    start(store, pipe)
    pipe.taken()
    state = runs.resume(store, pipe.flow(b_params={"x": 1}), "r", rerun_changed=True)
    assert pipe.taken() == ["b", "c"]
    assert state.run_state == "finished"


def test_a_workflow_can_grow_and_shrink(store: Store, pipe: Pipe) -> None:
    """RUN-08: a new node runs, one that was taken away is no longer part of the run."""
    start(store, pipe)
    pipe.taken()
    with pytest.raises(errors.CodeChanged, match=r"e \(new\)"):
        runs.resume(store, pipe.flow(more=True), "r")
    state = runs.resume(store, pipe.flow(more=True), "r", accept_changes=True)
    assert pipe.taken() == ["e"]
    assert len(state.work_items) == 5
    state = runs.resume(store, pipe.flow(), "r", accept_changes=True)
    assert (len(state.work_items), "e.out" in state.artifacts_index) == (4, False)
    assert runs.replay(store, "r").equal


def test_an_interrupted_run_says_so_and_goes_on(store: Store, pipe: Pipe) -> None:
    """RUN-09: Ctrl-C ends the session with a word, and the node is pending again."""
    flow = pipe.flow()
    interrupted = Workflow("pipe")
    interrupted.inputs.update(flow.inputs)
    for node in flow.nodes.values():
        function = node.function if node.name != "b" else _interrupt
        interrupted.add(node.name, function, inputs=node.inputs, outputs=node.outputs)
    with pytest.raises(KeyboardInterrupt):
        runs.start(store, interrupted, run="r", workspace=pipe.workspace)
    state = runs.load(store, "r").state
    assert (state.run_state, state.sessions[0].status) == ("interrupted", "interrupted")
    assert state.work_items[1].history[0].status == "interrupted"
    pipe.taken()
    assert runs.resume(store, flow, "r", rerun_changed=True).run_state == "finished"
    assert pipe.taken() == ["b", "c", "d"]


def _interrupt(work: Any) -> None:
    raise KeyboardInterrupt


def test_the_commit_of_the_code_is_recorded(bench: Any, store: Store, flow: Any) -> None:
    """RUN-10: a session names the commit of the repository that the workflow lies in, where there is one."""
    from tallystick.runs import code

    found = code.commit_of(code.directory_of(flow))
    state = runs.start(store, flow, run="r", workspace=bench.workspace, inputs=bench.inputs)
    assert (state.sessions[0].commit, state.sessions[0].dirty) == (found.id, found.dirty)


def test_a_directory_without_a_repository_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-10: no repository, or no git: the run goes on without."""
    from tallystick.runs import code

    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert code.commit_of(str(tmp_path)) == code.SourceCommit()
    monkeypatch.setenv("PATH", "")
    assert code.commit_of(str(tmp_path)) == code.SourceCommit()


def test_the_version_of_a_node_is_its_source_and_parameters() -> None:
    """RUN-10: the same text has the same hash, wherever it is indented; other text or parameters have another."""
    from tallystick.runs import code

    one: Any = {}
    exec(compile("f = lambda work: 1", "<one>", "exec"), one)
    two: Any = {}
    exec(compile("f = lambda work: 2", "<two>", "exec"), two)
    assert code.version(one["f"], {}) != code.version(two["f"], {})
    assert code.version(_interrupt, {}) == code.version(_interrupt, {})
    assert code.version(_interrupt, {}) != code.version(_interrupt, {"a": 1})
