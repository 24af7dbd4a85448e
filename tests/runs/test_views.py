"""What people look at: the graph, the differences between runs, and the record of who did what."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tallystick import Store, runs
from tallystick.runs import Workflow, graph, picture

NAMESPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def finished(bench: Any, store: Store, flow: Any) -> runs.RunState:
    """The example, done."""
    runner = runs.RunnerInfo(actor="ada", worker="press-1")
    return runs.start(store, flow, run="monday", workspace=bench.workspace, inputs=bench.inputs, runner=runner)


def odd() -> runs.RunState:
    """A run whose names try to break out of text."""
    flow = Workflow('w"<&>')
    flow.input('in"<b>&#1;')
    flow.add('a"]:::x', lambda work: None, inputs=['in"<b>&#1;'], outputs=["x|y"])
    flow.add("<script>alert(1)</script>", lambda work: None, inputs=["x|y"], section="s]]>")
    reducer = runs.state.RunReducer("r")
    declared = list(flow.graph().nodes.values())
    for fact in (runs.facts.RunCreated(workflow=flow.name), *flow.declared_inputs(), *declared):
        reducer.apply(fact, 0)
    return reducer.state


def test_the_mermaid_graph_shows_every_node_with_its_state(finished: runs.RunState) -> None:
    """RUN-08: nodes, inputs, sections, edges with their artifacts, and a class for each state."""
    text = runs.mermaid(finished)
    assert text.startswith("flowchart LR\n")
    for item in finished.work_items:
        assert re.search(rf'n\d+\["{item.node}"\]:::finished', text)
    assert '-->|"totals"|' in text
    assert len(re.findall(r"-->", text)) == 8
    assert text.count("subgraph") == text.count("  end\n") == 3


def test_no_name_breaks_out_of_the_graph() -> None:
    """RUN-08: quotes, brackets and tags in names stay text, in Mermaid and in SVG."""
    state = odd()
    lines = runs.mermaid(state).splitlines()
    for line in lines:
        assert line.count('"') % 2 == 0
        assert "<" not in line
    root = ElementTree.fromstring(runs.svg(state))
    assert not list(root.iter(f"{NAMESPACE}script"))
    shown = {text.text for text in root.iter(f"{NAMESPACE}text")}
    assert "<script>alert(1)</sc…" in shown


def test_the_picture_is_well_formed_and_nothing_overlaps(finished: runs.RunState) -> None:
    """RUN-08: a box for each node and input, inside the picture, beside each other, with the name to be read in it."""
    root = ElementTree.fromstring(runs.svg(finished))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [
        tuple(float(box.attrib[key]) for key in ("x", "y"))
        for box in root.iter(f"{NAMESPACE}rect")
        if box.attrib.get("width") == str(picture.BOX_WIDTH)
    ]
    assert len(boxes) == 7
    for x, y in boxes:
        assert 0 <= x <= width - picture.BOX_WIDTH
        assert 0 <= y <= height - picture.BOX_HEIGHT
    for index, (x, y) in enumerate(boxes):
        for a, b in boxes[index + 1 :]:
            assert abs(x - a) >= picture.BOX_WIDTH or abs(y - b) >= picture.BOX_HEIGHT
    names = {text.text for text in root.iter(f"{NAMESPACE}text") if text.attrib["class"] == "name"}
    assert names == {item.node for item in finished.work_items} | {"inbox.txt"}
    assert len([path for path in root.iter(f"{NAMESPACE}path") if path.attrib.get("class") == "edge"]) == 8


def test_a_node_stands_right_of_everything_it_waits_for(finished: runs.RunState) -> None:
    """RUN-08: edges lead from left to right."""
    drawing = graph.drawing(finished)
    column = {name: index for index, names in enumerate(graph.layers(drawing)) for name in names}
    assert all(column[edge.source] < column[edge.target] for edge in drawing.edges)


@pytest.mark.parametrize(
    ("ns", "text"),
    [(5_000_000, "5 ms"), (2_500_000_000, "2.5 s"), (95 * 10**9, "1 min 35 s"), (7260 * 10**9, "2 h 1 min")],
)
def test_lengths_of_time_are_for_people(ns: int, text: str) -> None:
    """Three figures at most."""
    assert picture.duration(ns) == text


def test_two_runs_of_the_same_make_the_same(bench: Any, store: Store, flow: Any, finished: runs.RunState) -> None:
    """RUN-08: times, ids and sessions make no difference."""
    other = runs.start(store, flow, run="tuesday", workspace=str(bench.root / "t"), inputs=bench.inputs)
    assert runs.diff(finished, other) == []


def test_a_difference_is_named(bench: Any, store: Store, flow: Any, finished: runs.RunState) -> None:
    """RUN-07: another input shows in every artifact that it changed, other code in its node."""
    inbox = bench.root / "other.txt"
    inbox.write_text(Path(bench.inputs["inbox.txt"]).read_text().replace("240.00", "250.00"))
    changed = bench.counting()
    other = runs.start(store, changed, run="t", workspace=str(bench.root / "t"), inputs={"inbox.txt": str(inbox)})
    found = runs.diff(finished, other)
    artifacts = {item.name for item in found if item.what == "artifact"}
    assert artifacts == {"inbox.txt", "documents", "fields", "totals", "report.md"}
    assert {item.property for item in found if item.what == "node"} <= {"code"}
    one = next(item for item in found if item.name == "totals")
    assert (one.a, one.b) == (
        finished.artifacts_index["totals"].sha256,
        other.artifacts_index["totals"].sha256,
    )


def test_telemetry_says_who_did_what(bench: Any, store: Store, flow: Any, finished: runs.RunState) -> None:
    """RUN-10: actor, worker, commit, times, inputs and outputs of every attempt."""
    found = runs.telemetry(store).activities
    assert [item.node for item in found] == [item.node for item in finished.work_items]
    total = found[4]
    assert (total.actor, total.worker, total.status, total.attempt) == ("ada", "press-1", "finished", 1)
    assert total.commit == finished.sessions[0].commit
    assert total.inputs == {name: finished.artifacts_index[name].sha256 for name in ("fields", "classes")}
    assert total.outputs == {"totals": finished.artifacts_index["totals"].sha256}
    assert total.ended_at is not None
    assert total.started_at <= total.ended_at


def test_telemetry_can_be_asked(bench: Any, store: Store, flow: Any, finished: runs.RunState) -> None:
    """RUN-10: by run, node, worker, actor, artifact (name or hash), commit and time."""
    runner = runs.RunnerInfo(actor="bob", worker="press-2")
    runs.start(store, flow, run="tuesday", workspace=str(bench.root / "t"), inputs=bench.inputs, runner=runner)
    middle = runs.load(store, "tuesday").state.created_at

    def asked(**question: Any) -> int:
        return len(runs.telemetry(store, runs.ActivityQuery(**question)).activities)

    sha256 = finished.artifacts_index["fields"].sha256
    assert (asked(), asked(run="monday"), asked(node="split"), asked(worker="press-2")) == (12, 6, 2, 6)
    assert (asked(actor="ada"), asked(actor="nobody")) == (6, 0)
    assert (asked(artifact="fields"), asked(artifact=sha256), asked(artifact=sha256[:10])) == (6, 6, 6)
    assert (asked(time_from=middle), asked(time_until=middle)) == (6, 6)
    commit = finished.sessions[0].commit
    if commit is not None:
        assert (asked(commit=commit), asked(commit=commit[:7])) == (12, 12)
    assert asked(commit="0" * 40) == 0


def test_a_run_that_cannot_be_read_is_named_in_the_answer(shelf: Any, flow: Any) -> None:
    """RUN-10: an audit is not silently short of a run."""
    with shelf.open() as store:
        for run in ("a", "b"):
            runs.start(store, flow, run=run, workspace=str(shelf.root / run), inputs=shelf.inputs)
    log = shelf.root / "log" / "runs" / "a" / "events.ndjson"
    log.write_bytes(b"#" + log.read_bytes()[1:])
    with shelf.open(readonly=True) as store:
        found = runs.telemetry(store)
        assert list(found.unreadable) == ["a"]
        assert {item.run for item in found.activities} == {"b"}


def test_a_node_may_have_the_name_of_an_input(bench: Any, store: Store) -> None:
    """RUN-08: they are two boxes with an edge between them, in both drawings."""
    flow = Workflow("same")
    flow.input("letters")
    flow.add("letters", lambda work: None, inputs=["letters"])
    Path(bench.workspace).mkdir()
    bench.file("letters").write_text("a")
    state = runs.start(store, flow, run="r", workspace=bench.workspace)
    assert "  i0 --> n0\n" in runs.mermaid(state)
    boxes = [box.text for box in ElementTree.fromstring(runs.svg(state)).iter(f"{NAMESPACE}text")]
    assert boxes.count("letters") == 2


def test_a_clock_that_was_set_back_makes_no_negative_time() -> None:
    """RUN-08: how long it took is not known then."""
    assert (picture.duration(-1), picture.duration(0)) == ("?", "0 ms")
