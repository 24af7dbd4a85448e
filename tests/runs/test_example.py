"""The example workflow on every engine: what it makes, what it records, and that the order is always the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import Store, runs
from tallystick.event import canonical
from tallystick.runs import journal, schema, snapshot
from tallystick.runs.state import RunState
from tallystick.store.verify import verify

NODES = ["split", "extract", "classify", "screen", "total", "report"]


def result(state: RunState) -> dict[str, Any]:
    """What a run amounts to, without times, ids and seqs."""
    return {
        "state": state.run_state,
        "sections": state.section_states,
        "artifacts": {name: (item.path, item.sha256, item.node) for name, item in state.artifacts_index.items()},
        "nodes": [(item.node, item.state, item.attempts) for item in state.work_items],
        "inputs": [[attempt.inputs for attempt in item.history] for item in state.work_items],
        "issues": [(issue.code, issue.state, issue.node) for issue in state.issues],
    }


def test_the_example_runs_on_every_engine(bench: Any, store: Store, flow: Any) -> None:
    """RUN-01, RUN-08: six nodes, in the declared order, one execution each; runs elsewhere are as good as here."""
    state = runs.start(store, bench.counting(), run="monday", workspace=bench.workspace, inputs=bench.inputs)
    assert state.run_state == "finished"
    assert [item.node for item in state.work_items] == NODES
    assert bench.counted() == dict.fromkeys(NODES, 1)
    assert bench.file("report.md").read_text().splitlines()[2:4] == [
        "- Ada Paper: 200.00",
        "- Babbage Engines: 17300.00",
    ]
    started = [e.data["node"] for e in store.read_stream("run/monday") if e.type == "NODE_STARTED"]
    assert started == NODES
    assert verify(store.log).ok


def test_replay_gives_exactly_what_the_runner_had(bench: Any, store: Store, flow: Any) -> None:
    """RUN-03, RUN-04, settled 11: the state is derived from the events alone, byte for byte."""
    state = runs.start(store, flow, run="monday", workspace=bench.workspace, inputs=bench.inputs)
    assert snapshot.encode(runs.load(store, "monday").state) == snapshot.encode(state)
    assert snapshot.encode(state) == canonical.encode_state(msgspec.to_builtins(state)) + b"\n"
    assert runs.replay(store, "monday").equal


def test_every_event_has_a_trace_a_span_and_an_id_of_its_own(bench: Any, store: Store, flow: Any) -> None:
    """RUN-02: one trace a run, a span for each attempt, and no id stands twice."""
    for run in ("monday", "tuesday"):
        runs.start(store, flow, run=run, workspace=bench.workspace, inputs=bench.inputs)
    events = [event for run in ("monday", "tuesday") for event in store.read_stream(f"run/{run}")]
    assert all(event.metadata["trace_id"] and event.metadata["span_id"] for event in events)
    assert len({event.id for event in events}) == len(events)
    traces = {event.stream: event.metadata["trace_id"] for event in events}
    assert len(set(traces.values())) == 2
    spans = [event.metadata["span_id"] for event in events if event.type == "NODE_STARTED"]
    assert len(set(spans)) == 12


@pytest.mark.parametrize("parallel", [2, 8])
def test_side_by_side_makes_the_same_as_in_turn(make_bench: Any, flow: Any, parallel: int) -> None:
    """RUN-08: nodes that do not wait for each other may run in threads, and the recorded result is the same."""
    found = []
    for name, threads in (("turn", 1), ("side", parallel)):
        bench = make_bench(name)
        with bench.open() as store:
            runner = runs.RunnerInfo(parallel=threads)
            state = runs.start(store, flow, run="monday", workspace=bench.workspace, inputs=bench.inputs, runner=runner)
            assert runs.replay(store, "monday").equal
            found.append((result(state), bench.artifacts()))
    assert found[0] == found[1]


def test_every_line_and_every_snapshot_fits_its_schema(shelf: Any, flow: Any) -> None:
    """RUN-01, RUN-03: the shipped JSON Schemas accept what is written, line by line, through jsonschema."""
    with shelf.open() as store:
        runs.start(store, flow, run="monday", workspace=shelf.workspace, inputs=shelf.inputs)
        runs.fork(store, "monday", "total", child="fork", workspace=str(shelf.root / "fork"))
        runs.resume(store, flow, "fork")
    directory = shelf.root / "log" / "runs"
    for run in ("monday", "fork"):
        lines = (directory / run / "events.ndjson").read_bytes().splitlines()
        assert len(lines) > 10
        for line in lines:
            schema.check("event", json.loads(line))
        document = json.loads((directory / run / "snapshot.json").read_bytes())
        schema.check("snapshot", document)
        assert canonical.encode_state(document) + b"\n" == (directory / run / "snapshot.json").read_bytes()
        wanted = {"run_id", "run_state", "section_states", "artifacts_index", "work_items", "issues"}
        assert wanted <= document.keys()
        entry = document["artifacts_index"]["totals"]
        assert {"path", "sha256", "schema_id", "writer_worker", "ts"} <= entry.keys()


def test_the_shipped_schemas_are_those_of_the_classes() -> None:
    """RUN-01, RUN-03: `python -m tallystick.runs` would change nothing."""
    for name in schema.NAMES:
        assert json.loads(schema.text(name)) == json.loads(json.dumps(schema.made(name)))


def test_events_come_before_the_snapshot_that_they_imply(shelf: Any, flow: Any, monkeypatch: Any) -> None:
    """RUN-01: whenever snapshot.json is replaced, everything that it says is in the log already."""
    seen = []
    with shelf.open() as store:
        documents = store.log.run_documents
        replace = documents.replace

        def watched(run: str, name: str, data: bytes) -> None:
            if name == snapshot.NAME:
                found = msgspec.json.decode(data, type=RunState)
                head = store.stream_head(f"run/{run}")
                assert head is not None
                seen.append((found.seq, head.seq))
                assert found.seq <= head.seq
                assert snapshot.encode(runs.load(store, run, until=found.seq).state) == data
            replace(run, name, data)

        monkeypatch.setattr(documents, "replace", watched)
        runs.start(store, flow, run="monday", workspace=shelf.workspace, inputs=shelf.inputs)
    assert len(seen) >= 2


def test_the_artifacts_say_who_made_them(bench: Any, store: Store, flow: Any) -> None:
    """RUN-03: path, SHA-256, schema, writer and time of each artifact stand in the index."""
    runner = runs.RunnerInfo(worker="press-1", actor="ada")
    state = runs.start(store, flow, run="monday", workspace=bench.workspace, inputs=bench.inputs, runner=runner)
    entry = state.artifacts_index["documents"]
    assert (entry.path, entry.schema_id, entry.writer_worker) == ("documents.json", "invoices/documents/1", "press-1")
    assert entry.ts > 0
    assert Path(bench.workspace, entry.path).stat().st_size == entry.bytes
    assert journal.trace_of(store, "monday") is not None
