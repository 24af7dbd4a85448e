"""`tally run` from the outside."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tallystick.cli.main import tally as group

Tally = Callable[..., Result]
FLOW = """
from tallystick.runs import Workflow
flow = Workflow("two")
flow.input("number")

@flow.node(inputs=["number"], outputs=["double"])
def double(work):
    value = int(work.text("number"))
    work.write("double", str(FACTOR * value))

@flow.node(inputs=["double"], outputs=["text"])
def tell(work):
    if work.text("double") == "26":
        raise ValueError("unlucky")
    work.write("text", "it is " + work.text("double"))
"""


@pytest.fixture(params=["ndjson:log", "sqlite:log.db", "files:log"])
def url(request: pytest.FixtureRequest) -> str:
    """A place for runs."""
    return str(request.param)


@pytest.fixture
def tally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tally:
    """Run `tally` in a directory with a workflow in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    write_flow(tmp_path, 2)
    (tmp_path / "seven").write_text("7")

    def run(*arguments: str) -> Result:
        sys.modules.pop("twoflow", None)
        return CliRunner().invoke(group, ["run", *arguments], prog_name="tally")

    return run


def write_flow(place: Path, factor: int) -> None:
    """The workflow, with a factor in its source."""
    import importlib
    import linecache
    import os

    path = place / "twoflow.py"
    path.write_text(FLOW.replace("FACTOR", str(factor)))
    os.utime(path, ns=(factor * 10**9, factor * 10**9))
    importlib.invalidate_caches()
    linecache.clearcache()


def start(tally: Tally, url: str, run: str = "r", *more: str) -> Result:
    return tally(
        "start", url, "twoflow:flow", "--run", run, "--input", "number=seven", "--workspace", f"ws-{run}", *more
    )


def test_start_shows_the_nodes(tally: Tally, url: str, tmp_path: Path) -> None:
    """RUN-08: a table with the state of each node, exit status 0, and the artifact is there."""
    result = start(tally, url)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].startswith("r  two  finished  2 of 2 nodes")
    assert [line.split()[:3] for line in result.stdout.splitlines()[3:5]] == [
        ["✔", "double", "finished"],
        ["✔", "tell", "finished"],
    ]
    assert (tmp_path / "ws-r" / "text").read_text() == "it is 14"


def test_a_failed_run_exits_with_1_and_can_be_resumed(tally: Tally, url: str, tmp_path: Path) -> None:
    """RUN-09: the trail is shown, the error is said, and `resume` goes on at the failed node."""
    (tmp_path / "seven").write_text("13")
    result = start(tally, url)
    assert result.exit_code == 1
    assert "unlucky" in result.stderr
    assert "blocker: NodeFailed" in result.stdout
    (tmp_path / "seven").write_text("8")
    again = tally("resume", url, "r", "--input", "number=seven", "--json")
    assert again.exit_code == 0, again.output
    document = json.loads(again.stdout)
    assert document["state"] == "finished"
    assert {item["node"]: item["attempts"] for item in document["nodes"]} == {"double": 2, "tell": 2}


def test_changed_code_is_asked_about(tally: Tally, url: str, tmp_path: Path) -> None:
    """RUN-10: resume names the nodes that differ, exit status 1; --rerun-changed and --accept-changes decide."""
    start(tally, url)
    write_flow(tmp_path, 3)
    refused = tally("resume", url, "r")
    assert (refused.exit_code, "double (code)" in refused.stderr) == (1, True)
    assert "--accept-changes" in refused.stderr
    assert tally("resume", url, "r", "--accept-changes").exit_code == 0
    assert (tmp_path / "ws-r" / "text").read_text() == "it is 14"
    write_flow(tmp_path, 4)
    assert tally("resume", url, "r", "--rerun-changed").exit_code == 0
    assert (tmp_path / "ws-r" / "text").read_text() == "it is 28"
    assert tally("resume", url, "r", "--rerun-changed", "--accept-changes").exit_code == 2


def test_status_lists_and_shows(tally: Tally, url: str) -> None:
    """RUN-10: every run in a table, one run in detail, both as JSON; --follow ends when the run is over."""
    start(tally, url, "a")
    start(tally, url, "b")
    listed = tally("status", url)
    assert [line.split()[:4] for line in listed.stdout.splitlines()[1:]] == [
        ["a", "two", "finished", "2/2"],
        ["b", "two", "finished", "2/2"],
    ]
    lines = [json.loads(line) for line in tally("status", url, "--json").stdout.splitlines()]
    assert [line["run"] for line in lines] == ["a", "b"]
    for more in ([], ["--follow"]):
        shown = tally("status", url, "a", *more)
        assert shown.stdout.startswith("a  two  finished")
        document = json.loads(tally("status", url, "a", "--json", *more).stdout)
        assert document["artifacts"]["text"]["path"] == "text"
    assert tally("status", url, "nobody").exit_code == 2
    assert tally("status", url, "--follow").exit_code == 2


def test_the_list_answers_no_if_a_run_is_damaged(tally: Tally, tmp_path: Path) -> None:
    """RUN-09, SAFE-05: the others are shown, what is wrong is said, and the exit status is not 0."""
    for run in ("one", "two", "three"):
        tally("start", "ndjson:log", "twoflow:flow", "--run", run, "--input", "number=seven")
    assert tally("status", "ndjson:log").exit_code == 0
    shutil.rmtree(tmp_path / "log" / "runs" / "one")
    log = tmp_path / "log" / "runs" / "two" / "events.ndjson"
    log.write_bytes(log.read_bytes().replace(b"RUN_CREATED", b"RUN_CREATEd"))
    for options in ([], ["--json"]):
        listed = tally("status", "ndjson:log", *options)
        assert listed.exit_code == 1
        assert "three" in listed.stdout
        assert "two" in listed.stderr
        assert "runs/one is gone" in listed.stderr
    asked = tally("telemetry", "ndjson:log")
    assert asked.exit_code == 1
    assert "three" in asked.stdout
    assert "runs/one is gone" in asked.stderr


def test_graph_prints_mermaid_and_draws_svg(tally: Tally, url: str, tmp_path: Path) -> None:
    """RUN-08: both show the states."""
    start(tally, url)
    assert tally("graph", url, "r").stdout.startswith("flowchart LR")
    assert tally("graph", url, "r", "--svg", "r.svg").exit_code == 0
    assert (tmp_path / "r.svg").read_text().startswith("<svg ")
    assert json.loads(tally("graph", url, "r", "--json").stdout)["mermaid"].count(":::finished") == 2


def test_replay_proves_the_snapshot(tally: Tally, tmp_path: Path) -> None:
    """RUN-04: exit status 0 if snapshot.json is exact; 1 if it was not, and then it is put right unless --check."""
    start(tally, "ndjson:log")
    assert "byte for byte" in tally("replay", "ndjson:log", "r").stdout
    path = tmp_path / "log" / "runs" / "r" / "snapshot.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"finished", b"failed", 1))
    checked = tally("replay", "ndjson:log", "r", "--check", "--json")
    assert (checked.exit_code, json.loads(checked.stdout)["equal"]) == (1, False)
    assert tally("replay", "ndjson:log", "r").exit_code == 1
    assert path.read_bytes() == whole
    assert tally("replay", "ndjson:log", "r").exit_code == 0


def test_replay_needs_no_snapshot_file(tally: Tally, url: str) -> None:
    """RUN-04: on any engine the events are replayed and held against their schema."""
    start(tally, url)
    document = json.loads(tally("replay", url, "r", "--json").stdout)
    assert document["equal"]
    assert document["valid_events"] == document["events"] > 10


def test_diff_answers_with_its_exit_status(tally: Tally, url: str, tmp_path: Path) -> None:
    """RUN-07: 0 when two runs made the same, 1 and a table when not."""
    start(tally, url, "a")
    start(tally, url, "b")
    assert tally("diff", url, "a", "b").exit_code == 0
    (tmp_path / "seven").write_text("9")
    start(tally, url, "c")
    result = tally("diff", url, "a", "c")
    assert result.exit_code == 1
    assert [line.split()[1] for line in result.stdout.splitlines()[1:]] == ["double", "number", "text"]
    assert len(json.loads(tally("diff", url, "a", "c", "--json").stdout)["differences"]) == 3


def test_fork_and_resume(tally: Tally, url: str, tmp_path: Path) -> None:
    """RUN-06: a fork has what came before its node, and resume does the rest."""
    start(tally, url)
    result = tally("fork", url, "r", "tell", "--run", "f", "--workspace", "ws-f")
    assert (result.exit_code, "1 of 2 nodes are finished" in result.stdout) == (0, True)
    document = json.loads(tally("resume", url, "f", "--json").stdout)
    assert (document["state"], document["parent"]["stream"]) == ("finished", "run/r")
    assert (tmp_path / "ws-f" / "text").read_text() == "it is 14"
    assert tally("fork", url, "r", "nobody").exit_code == 1


def test_telemetry_is_a_table_or_lines(tally: Tally, url: str) -> None:
    """RUN-10: filtered by options, with the actor that was given."""
    start(tally, url, "a", "--actor", "ada", "--worker", "press-1")
    start(tally, url, "b", "--actor", "bob")
    lines = [json.loads(line) for line in tally("telemetry", url, "--actor", "ada", "--json").stdout.splitlines()]
    assert [(line["run"], line["node"], line["worker"]) for line in lines] == [
        ("a", "double", "press-1"),
        ("a", "tell", "press-1"),
    ]
    shown = tally("telemetry", url, "--artifact", "text").stdout.splitlines()
    assert [line.split()[1:3] for line in shown[1:]] == [["a", "tell"], ["b", "tell"]]


def test_schemas_can_be_exported(tally: Tally) -> None:
    """RUN-01, RUN-03: both shipped schemas are printed as JSON."""
    for name in ("event", "snapshot"):
        assert json.loads(tally("schema", name).stdout)["$id"] == f"{name}.schema.json"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["start", "ndjson:log", "twoflow:nothing"], 2),
        (["start", "ndjson:log", "twoflow:flow", "--run", "../x", "--input", "number=seven"], 1),
        (["start", "ndjson:log", "twoflow:flow", "--input", "number"], 2),
        (["start", "ndjson:log", "twoflow:flow", "--input", "number=nowhere"], 1),
        (["start", "ndjson:log", "twoflow:flow", "--parallel", "0"], 2),
        (["resume", "ndjson:nowhere", "r"], 2),
        (["graph", "ndjson:nowhere", "r"], 2),
        (["resume", "memory:", "r"], 2),
    ],
)
def test_what_cannot_be_done_is_said(tally: Tally, arguments: list[str], status: int) -> None:
    """RUN-01: one message and the right exit status, never a trace."""
    result = tally(*arguments)
    assert result.exit_code == status
    assert "Traceback" not in result.output
    assert "internal error" not in result.output


def test_an_attested_worker_is_recorded(tally: Tally, tmp_path: Path) -> None:
    """EVT-10: the evidence is an event of the run."""
    (tmp_path / "quote").write_bytes(b"\x01\x02")
    start(tally, "ndjson:log", "r", "--attest", "tpm2", "quote")
    lines: list[Any] = [json.loads(line) for line in (tmp_path / "log/runs/r/events.ndjson").read_text().splitlines()]
    attested = [line["payload"] for line in lines if line["type"] == "WORKER_ATTESTED"]
    assert [(item["attestation_type"], item["attestation"]) for item in attested] == [("tpm2", "0102")]


def test_what_a_workflow_prints_is_not_part_of_the_document(tally: Tally, tmp_path: Path) -> None:
    """RUN-08: with --json the output is JSON and nothing else, whatever module and nodes print."""
    text = (tmp_path / "twoflow.py").read_text()
    chatty = text.replace("def double(work):", 'def double(work):\n    print("hello")') + 'print("loaded")\n'
    (tmp_path / "twoflow.py").write_text(chatty)
    for result in (start(tally, "ndjson:log", "r", "--json"), tally("resume", "ndjson:log", "r", "--json")):
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["state"] == "finished"
        assert "loaded" in result.stderr
