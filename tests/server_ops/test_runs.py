"""Runs over HTTP: how they stand, and who did what, when, from which commit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, runs

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # `examples` is a plain folder at the root of the repository
    sys.path.append(str(ROOT))

from examples.invoices import invoices  # noqa: E402

INPUTS = {"inbox.txt": str(ROOT / "examples" / "inbox.txt")}


@pytest.fixture(params=["ndjson", "sqlite"])
def ran(request: pytest.FixtureRequest, serve, tmp_path) -> Any:
    """A service over a store in which two runs ran; one more stream of that kind is no run."""
    url = f"{request.param}:{tmp_path / 'log'}"
    with tallystick.open(url) as store:
        for run in ("monday", "tuesday"):
            runner = runs.RunnerInfo(worker="w1", actor="ada")
            runs.start(store, invoices, run=run, inputs=INPUTS, workspace=str(tmp_path / run), runner=runner)
        store.append("run/other", NewEvent("noted", {"n": 1}))
    return serve(url)


def test_runs_are_listed_page_by_page(ran):
    """RUN-10: each run once, by id, with its state. Streams that no workflow made are left out."""
    first = ran.get("/v1/runs", params={"limit": 1})
    second = ran.get("/v1/runs", params={"limit": 5, "after": first["next"]})
    assert [run["run"] for run in first["runs"] + second["runs"]] == ["monday", "tuesday"]
    assert (first["runs"][0]["state"], second["next"]) == ("finished", None)


def test_one_run_is_shown_with_its_graph(ran):
    """RUN-10: nodes with their attempts, artifacts with their hashes, and the edges between nodes."""
    found = ran.get("/v1/runs/monday")
    assert {node["state"] for node in found["nodes"]} == {"finished"}
    assert found["graph"]["edges"]
    assert all(len(item["sha256"]) == 64 for item in found["artifacts"].values())


def test_telemetry_answers_who_did_what_when_from_which_commit(ran):
    """RUN-10: the same attempts as the library gives, with actor, times, inputs, outputs and commit."""
    told = ran.get("/v1/telemetry")
    store = ran.service.store
    expected = runs.telemetry(store).activities
    assert [(item["run"], item["node"], item["started_at"]) for item in told["activities"]] == [
        (item.run, item.node, item.started_at) for item in expected
    ]
    item = told["activities"][0]
    assert (item["actor"], item["worker"]) == ("ada", "w1")
    assert item.keys() >= {"commit", "dirty", "inputs", "outputs", "ended_at", "status"}


def test_telemetry_can_be_asked_for_one_thing(ran):
    """RUN-10: every condition narrows the result, and pages of runs continue where they ended."""
    node = ran.get("/v1/telemetry")["activities"][0]["node"]
    found = ran.get("/v1/telemetry", params={"run": "tuesday", "node": node})["activities"]
    assert {(item["run"], item["node"]) for item in found} == {("tuesday", node)}
    assert ran.get("/v1/telemetry", params={"actor": "nobody"})["activities"] == []
    first = ran.get("/v1/telemetry", params={"limit": 1})
    assert (first["next"], {item["run"] for item in first["activities"]}) == ("monday", {"monday"})


def test_a_run_that_is_not_there_is_not_there(ran):
    """A missing run is 404 without the place of the store; an impossible name is 422."""
    for path in ("/v1/runs/none", "/v1/telemetry?run=none"):
        answer = ran.client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "log" not in answer.text
    assert ran.client.get("/v1/runs/NOT-LOWER").status_code == 422
    assert ran.client.get("/v1/runs/other").status_code == 409


def test_a_tenant_sees_no_runs_of_others(serve, tmp_path):
    """CP-10: a run belongs to the org of its events; others get a 404."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    for org in ("acme", "other"):
        with tallystick.open(url, defaults={"org": org}) as store:
            runs.start(store, invoices, run=f"of-{org}", inputs=INPUTS, workspace=str(tmp_path / org))
    running = serve(url)
    secret = running.service.tokens.issue("tenant", actor="ada", org="acme").secret
    headers = {"authorization": f"Bearer {secret}"}
    listed = running.client.get("/v1/runs", headers=headers).json()["runs"]
    assert [run["run"] for run in listed] == ["of-acme"]
    asked = running.client.get("/v1/telemetry", headers=headers).json()["activities"]
    assert {item["run"] for item in asked} == {"of-acme"}
    refused = [running.client.get(f"/v1/runs/{run}", headers=headers) for run in ("of-other", "none")]
    assert [answer.status_code for answer in refused] == [404, 404]
    assert refused[0].content == refused[1].content
