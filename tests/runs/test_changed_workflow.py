"""A workflow that is not what the run was made with: other makers, other files, nodes that come and go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick import Store, runs
from tallystick.runs import Artifact, Workflow


def flow(makers: dict[str, list[str]], *, reads: str = "x", folder: str = "", text: str = "1") -> Workflow:
    """Nodes that make artifacts, and one that copies one of them to `out`."""
    made = Workflow("changing")

    def node(outputs: list[str]) -> Any:
        return lambda work: [work.write(name, text) for name in outputs]

    for name, outputs in makers.items():
        places = [Artifact(output, folder + output) for output in outputs]
        made.add(name, node(outputs), outputs=places, params={"text": text})
    made.add("copy", lambda work: work.write("out", work.read(reads)), inputs=[reads], outputs=["out"])
    return made


def result(bench: Any) -> str:
    """What the run made in the end."""
    return str(bench.file("out").read_text())


def test_a_node_under_another_name_makes_its_readers_stale(bench: Any, store: Store) -> None:
    """RUN-07: what a new node makes is another artifact than the one that was read, accepted or not."""
    runs.start(store, flow({"a": ["x"]}), run="r", workspace=bench.workspace)
    state = runs.resume(store, flow({"b": ["x"]}, text="2"), "r", accept_changes=True)
    assert (state.run_state, result(bench)) == ("finished", "2")


@pytest.mark.parametrize("how", ["accept_changes", "rerun_changed"])
def test_an_artifact_can_move_to_another_node(bench: Any, store: Store, how: str) -> None:
    """RUN-04, RUN-07: the new maker makes it, its reader runs again, and the log replays."""
    runs.start(store, flow({"a": ["x"], "b": ["y"]}), run="r", workspace=bench.workspace)
    state = runs.resume(store, flow({"b": ["y", "x"]}), "r", **{how: True})
    assert (state.run_state, state.artifacts_index["x"].node) == ("finished", "b")
    assert runs.replay(store, "r").equal
    state = runs.resume(store, flow({"a": ["y"], "b": ["x"]}), "r", **{how: True})
    assert {name: entry.node for name, entry in state.artifacts_index.items()} == {"x": "b", "y": "a", "out": "copy"}
    assert runs.replay(store, "r").equal


def test_an_output_that_is_new_is_made_although_changes_are_accepted(bench: Any, store: Store) -> None:
    """RUN-07: what was kept did not have it, and somebody may read it."""
    runs.start(store, flow({"a": ["x"]}), run="r", workspace=bench.workspace)
    state = runs.resume(store, flow({"a": ["x", "y"]}, reads="y"), "r", accept_changes=True)
    assert (state.run_state, sorted(state.artifacts_index)) == ("finished", ["out", "x", "y"])
    assert runs.resume(store, flow({"a": ["x", "y"]}, reads="y"), "r").seq == state.seq


def test_an_output_at_another_path_is_made_there(bench: Any, store: Store) -> None:
    """RUN-07: readers are given the new file, so there must be one."""
    runs.start(store, flow({"a": ["x"]}), run="r", workspace=bench.workspace)
    state = runs.resume(store, flow({"a": ["x"]}, folder="sub/"), "r", accept_changes=True, force=["copy"])
    assert (state.run_state, state.artifacts_index["x"].path) == ("finished", "sub/x")
    assert runs.replay(store, "r").equal


def reading(path: str) -> Workflow:
    """A workflow with an input at this path."""
    made = Workflow("reading")
    made.input("in", path=path)
    made.add("copy", lambda work: work.write("out", work.read("in")), inputs=["in"], outputs=["out"])
    return made


def test_an_input_at_another_path_is_read_there(bench: Any, store: Store) -> None:
    """RUN-07: the file that was hashed is the file that is read."""
    Path(bench.workspace).mkdir()
    bench.file("one").write_text("1")
    bench.file("two").write_text("2")
    runs.start(store, reading("one"), run="r", workspace=bench.workspace)
    state = runs.resume(store, reading("two"), "r")
    assert (result(bench), state.inputs["in"].path) == ("2", "two")
    assert runs.resume(store, reading("two"), "r").seq == state.seq


def test_an_artifact_can_become_an_input(bench: Any, store: Store) -> None:
    """RUN-04, RUN-07: its maker is gone, the file stays, and the log replays."""
    runs.start(store, flow({"a": ["x"]}), run="r", workspace=bench.workspace)
    later = Workflow("changing")
    later.input("x")
    later.add("copy", lambda work: work.write("out", work.read("x")), inputs=["x"], outputs=["out"])
    state = runs.resume(store, later, "r", accept_changes=True)
    assert (state.run_state, state.artifacts_index["x"].node) == ("finished", None)
    assert runs.replay(store, "r").equal
    assert runs.resume(store, later, "r").seq == state.seq


def test_what_a_removed_node_did_can_still_be_asked(bench: Any, store: Store) -> None:
    """RUN-09: telemetry keeps its attempts, and when it comes back they are counted on."""
    both = flow({"a": ["x"], "b": ["y"]})
    runs.start(store, both, run="r", workspace=bench.workspace)
    state = runs.resume(store, flow({"a": ["x"]}), "r", accept_changes=True)
    assert [item.node for item in state.work_items] == ["a", "copy"]
    assert {found.node for found in runs.telemetry(store).activities} == {"a", "b", "copy"}
    state = runs.resume(store, both, "r", accept_changes=True)
    attempts = [(found.node, found.attempt) for found in runs.telemetry(store).activities if found.node == "b"]
    assert (state.run_state, attempts) == ("finished", [("b", 1), ("b", 2)])
    assert runs.replay(store, "r").equal


def test_a_run_whose_last_word_was_interrupted_is_finished_by_resume(bench: Any, store: Store) -> None:
    """RUN-06: with every node done and no word that the run is, resume says it."""
    made = flow({"a": ["x"]})
    runs.start(store, made, run="r", workspace=bench.workspace)
    journal = runs.journal.Journal(store, "r", runs.load(store, "r"))
    journal.record([runs.facts.RunStateChanged(state="interrupted")])
    assert runs.resume(store, made, "r").run_state == "finished"


def test_a_relative_workspace_is_found_from_anywhere(
    make_bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-06: the place of the files does not depend on where resume is called: finished work is not repeated."""
    for given in ("files", None):
        bench = make_bench(f"relative-{given}", "sqlite")
        (bench.root / "elsewhere").mkdir()
        monkeypatch.chdir(bench.root)
        with bench.open() as store:
            made = flow({"a": ["x"]})
            state = runs.start(store, made, run="r", workspace=given)
            monkeypatch.chdir(bench.root / "elsewhere")
            assert runs.resume(store, made, "r").seq == state.seq
