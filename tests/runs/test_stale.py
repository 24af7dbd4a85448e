"""Random graphs and random changes: what runs again is exactly what is stale by definition."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import strategies as st

import tallystick
from tallystick import runs
from tallystick.runs import Workflow

INPUTS = 3


@st.composite
def graphs(draw: Any) -> list[tuple[list[int], list[int]]]:
    """For each node: the earlier nodes that it reads, and the inputs that it reads."""
    nodes = []
    for number in range(draw(st.integers(1, 9))):
        earlier = st.lists(st.integers(0, max(number - 1, 0)), max_size=3, unique=True) if number else st.just([])
        nodes.append((draw(earlier), draw(st.lists(st.integers(0, INPUTS - 1), max_size=2, unique=True))))
    return nodes


def workflow(graph: list[tuple[list[int], list[int]]], ran: list[int]) -> Workflow:
    """The graph as a workflow whose nodes note that they ran."""
    flow = Workflow("random")
    for number in range(INPUTS):
        flow.input(f"in{number}")
    for number, (nodes, files) in enumerate(graph):
        inputs = [f"out{node}" for node in nodes] + [f"in{file}" for file in files]

        def node(work: Any, number: int = number, inputs: tuple[str, ...] = tuple(inputs)) -> None:
            ran.append(number)
            work.write(f"out{number}", "+".join([str(number), *(work.text(name) for name in inputs)]))

        flow.add(f"node{number}", node, inputs=inputs, outputs=[f"out{number}"])
    return flow


def closure(graph: list[tuple[list[int], list[int]]], roots: set[int]) -> set[int]:
    """The definition: the roots, and every node that reads something a stale node makes."""
    found = set(roots)
    for number, (nodes, _) in enumerate(graph):
        if found & set(nodes):
            found.add(number)
    return found


@hypothesis.settings(max_examples=120, deadline=None, derandomize=True, database=None)
@hypothesis.given(graphs(), st.data())
def test_the_nodes_that_run_again_are_the_stale_ones(graph: Any, data: Any) -> None:
    """RUN-06, RUN-07: changed inputs, artifacts changed by hand, artifacts gone, nodes forced; nothing else runs."""
    ran: list[int] = []
    count = len(graph)
    with tempfile.TemporaryDirectory(prefix="tally-stale-") as root, tallystick.open("memory:") as store:
        for number in range(INPUTS):
            Path(root, f"in{number}").write_text(f"i{number}")
        flow = workflow(graph, ran)
        first = runs.start(store, flow, run="r", workspace=root)
        assert sorted(ran) == list(range(count))
        assert first.run_state == "finished"
        ran.clear()
        some = st.sets(st.integers(0, count - 1), max_size=2)
        inputs = data.draw(st.sets(st.integers(0, INPUTS - 1), max_size=2), "inputs")
        edited, gone, forced = data.draw(some, "edited"), data.draw(some, "gone"), data.draw(some, "forced")
        edited -= gone
        for number in inputs:
            Path(root, f"in{number}").write_text("changed")
        for number in edited:
            Path(root, f"out{number}").write_text("by hand")
        for number in gone:
            Path(root, f"out{number}").unlink()
        roots = {n for n, (nodes, files) in enumerate(graph) if set(files) & inputs or set(nodes) & edited}
        stale = closure(graph, roots | gone | forced)
        state = runs.resume(store, flow, "r", force=[f"node{number}" for number in forced])
        assert sorted(ran) == sorted(stale)
        again = {int(item.node[4:]) for item in state.work_items if len(item.history) == 2}
        assert again == stale
        assert not any(entry.stale for entry in state.artifacts_index.values())
        ran.clear()
        assert runs.resume(store, flow, "r").seq == state.seq
        assert ran == []


@hypothesis.settings(max_examples=40, deadline=None, derandomize=True, database=None)
@hypothesis.given(graphs(), st.integers(2, 5))
def test_any_graph_makes_the_same_side_by_side(graph: Any, parallel: int) -> None:
    """RUN-08: with any number of threads the artifacts and the order of starts by wave are those of one."""
    found = []
    for threads in (1, parallel):
        ran: list[int] = []
        with tempfile.TemporaryDirectory(prefix="tally-stale-") as root, tallystick.open("memory:") as store:
            for number in range(INPUTS):
                Path(root, f"in{number}").write_text(f"i{number}")
            state = runs.start(
                store, workflow(graph, ran), run="r", workspace=root, runner=runs.RunnerInfo(parallel=threads)
            )
            found.append({name: entry.sha256 for name, entry in state.artifacts_index.items()})
            assert len(ran) == len(graph)
    assert found[0] == found[1]
