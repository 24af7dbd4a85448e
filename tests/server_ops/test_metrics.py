"""/metrics, and what is built on it: every figure that an alert or the board names is there, and says what happened."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import tallystick
from tallystick.projections import Consumer
from tallystick.server.metrics import Metrics
from tallystick.state import reducer
from tallystick.store.backoff import Backoff, retries
from tallystick.testing.shop import PLACED, OrderTotals

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"\btally_[a-z_]+")
MATCHERS = re.compile(r"(tally_[a-z_]+)\{([^}]*)\}")
LABEL = re.compile(r"([a-z_]+)\s*=~?\s*\"")
GROUPED = re.compile(r"by \(([^)]*)\)")
LEGEND = re.compile(r"\{\{\s*([a-z_]+)\s*\}\}")

Samples = dict[str, list[tuple[dict[str, str], float]]]


@reducer(name="count", version=1)
def count(state: dict[str, Any], event: Any) -> dict[str, Any]:
    """How many events there were."""
    return {"count": state.get("count", 0) + 1}


def fail(event: Any) -> None:
    """A handler that cannot."""
    raise ValueError


def scraped(running: Any) -> Samples:
    """A real answer of /metrics, read by the parser that Prometheus ships."""
    answer = running.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(samples: Samples, metric: str, **labels: str) -> float:
    """The one figure of that name with these labels."""
    (found,) = [figure for given, figure in samples[metric] if labels.items() <= given.items()]
    return found


@pytest.fixture
def watched(serve, tmp_path) -> Any:
    """A service in which everything that is measured has happened at least once."""
    url = f"files:{tmp_path / 'log'}"
    with tallystick.open(url) as store:
        store.append("order/0", [tallystick.NewEvent(PLACED, {"customer": "c", "amount": 1})] * 3)
        Consumer(store, "mails", fail, attempts=1).step(until=2)
    running = serve(url, projections=[OrderTotals()], reducers=[count])
    running.append("order/1", {"customer": "c", "amount": 1}, {"customer": "c", "amount": 2}, type=PLACED)
    running.client.post("/v1/streams/order/1/events", json={"events": [], "expected": 9})
    running.append("order/1", {"customer": "c", "amount": 1}, headers={"host": "elsewhere.example"})
    running.finished(running.client.post("/v1/snapshots", json={"stream": "order/1"}))
    running.finished(running.client.post("/v1/integrity/verify"))
    running.until("/v1/projections", lambda answer: answer["projections"][0]["lag_events"] == 0)
    running.service.operations.sampler.sample(fresh=True)
    return running


def test_what_happened_is_counted(watched):
    """CP-14, LH-17: append rate and latency, sizes and growth, lag of projection and consumer, snapshots, queues."""
    samples = scraped(watched)
    assert value(samples, "tally_appends_total") == 1
    assert value(samples, "tally_append_seconds_count") == 1
    assert value(samples, "tally_events_recorded_total") >= 3, "two of ours and the fact of the snapshot"
    assert value(samples, "tally_commit_seconds_count") >= 2
    assert value(samples, "tally_log_bytes") > 0
    assert value(samples, "tally_log_head") == value(samples, "tally_log_growth_events_per_day") == 6
    assert value(samples, "tally_lag_events", kind="projection") == 0
    assert value(samples, "tally_lag_events", kind="consumer", name="mails") == 4
    assert value(samples, "tally_lag_seconds", kind="consumer", name="mails") > 0
    assert value(samples, "tally_dead_letters", consumer="mails") == 2
    assert value(samples, "tally_snapshots_total", result="made") == 1
    assert value(samples, "tally_snapshots_total", result="failed") == 0
    assert value(samples, "tally_append_queue_requests") == 0
    assert value(samples, "tally_disk_free_bytes") > 0
    assert value(samples, "tally_verify_problems") == 0
    assert value(samples, "tally_projection_running", name=OrderTotals().name) == 1
    route = "/v1/streams/{kind}/{name}/events"
    assert value(samples, "tally_http_requests_total", route=route, status="201") == 1


def test_what_is_tried_again_is_counted(watched):
    """LH-16, LH-17: each retry of a transient failure is counted by its cause."""
    before = retries().get("write", 0)
    assert Backoff("write").pause()
    assert value(scraped(watched), "tally_retries_total", what="write") == before + 1


def test_no_label_holds_a_name_that_a_client_chose(watched):
    """Streams, ids and unknown paths make no series: their number is bounded, and they show nothing."""
    for path in ("/v1/streams/secret-kind/secret-name", "/secret-path", "/v1/events/secret-id"):
        watched.client.get(path)
    page = watched.client.get("/metrics").text
    assert "secret" not in page


def test_methods_and_routes_without_end_do_not_make_series_without_end():
    """Whatever clients send, the number of series stays bounded."""
    metrics = Metrics()
    for number in range(2000):
        metrics.request(route="/a", method=f"M{number}", status=405, seconds=0.1)
    assert metrics.page().count(b"tally_http_requests_total{") <= 202


def _queries() -> list[tuple[str, str]]:
    """Every query of the alerts and of the board, with the texts that are filled in from its labels."""
    rules = yaml.safe_load((ROOT / "ops" / "alerts.yml").read_text())["groups"][0]["rules"]
    board = json.loads((ROOT / "ops" / "grafana.json").read_text())
    targets = [target for panel in board["panels"] for target in panel.get("targets", ())]
    return [(rule["expr"], rule["annotations"]["summary"].replace("$labels.", "")) for rule in rules] + [
        (target["expr"], target["legendFormat"]) for target in targets
    ]


def test_every_figure_that_is_watched_exists(watched):
    """LH-17: each metric and label that an alert or the dashboard names is in a real response of /metrics."""
    samples = scraped(watched)
    not_yet = {"tally_commit_failures_total": {"error"}, "tally_scheduler_jobs_total": {"job", "result"}}
    known = {name: set().union(*(labels for labels, _ in found)) for name, found in samples.items()} | not_yet
    families = watched.client.get("/metrics").text
    assert all(f"# TYPE {name} counter" in families for name in not_yet), "declared, though nothing failed or fired"
    queries = _queries()
    assert len(queries) > 40
    for query, told in queries:
        names = NAME.findall(query)
        assert [name for name in names if name not in known] == [], query
        for name, matchers in MATCHERS.findall(query):
            assert set(LABEL.findall(matchers)) <= known[name], query
        labels = {label.strip() for group in GROUPED.findall(query) for label in group.split(",")}
        labels |= set(LEGEND.findall(told))
        assert not labels or labels <= set().union(*(known[name] for name in names)), (query, told)


def test_every_figure_is_described(watched):
    """docs/operations.md names every metric of ours that /metrics has."""
    page = (ROOT / "docs" / "operations.md").read_text()
    families = re.findall(r"^# TYPE (tally_\w+) (\w+)$", watched.client.get("/metrics").text, re.MULTILINE)
    names = [name for name, kind in families if not name.endswith("_created")]
    assert len(names) > 30
    assert [name for name in names if f"`{name}" not in page] == []


def test_every_alert_says_what_is_wrong_and_what_to_do():
    """An alert without a next step wakes somebody for nothing."""
    rules = yaml.safe_load((ROOT / "ops" / "alerts.yml").read_text())["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["annotations"].keys() == {"summary", "advice"}, rule["alert"]
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_every_command_and_route_in_an_advice_exists(watched):
    """Advice can be followed: commands are those of `tally`, routes those of the service."""
    from tallystick.cli.main import COMMANDS

    text = (ROOT / "ops" / "alerts.yml").read_text()
    assert set(re.findall(r"`tally (\w+)", text)) <= COMMANDS.keys()
    paths = watched.get("/openapi.json")["paths"]
    for method, path in re.findall(r"\b(GET|POST) (/v1/[\w/]+)", text):
        assert method.lower() in paths[path], path
