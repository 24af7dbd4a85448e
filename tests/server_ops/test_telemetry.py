"""OpenTelemetry: spans and figures reach a collector by OTLP over HTTP, when one is named and only then."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tallystick import errors
from tallystick.server import telemetry

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Collector(ThreadingHTTPServer):
    """A tiny OTLP receiver on loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[tuple[str, bytes]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def spans(self) -> list[Any]:
        """The spans that arrived."""
        requests = [ExportTraceServiceRequest.FromString(body) for path, body in self.bodies if path == "/v1/traces"]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def metrics(self) -> dict[str, Any]:
        """The figures that arrived, by name; the last of each."""
        found = {}
        for path, body in self.bodies:
            if path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for scope in resource.scope_metrics:
                        found |= {metric.name: metric for metric in scope.metrics}
        return found


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.bodies.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that listens, and that the environment names."""
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.address)
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


def attributes(span: Any) -> dict[str, Any]:
    """The attributes of a span."""
    return {item.key: item.value.string_value or item.value.int_value for item in span.attributes}


def test_requests_become_spans_and_figures_arrive(serve, collector):
    """LH-17: one span per request, within the caller's trace, and the metrics; nothing of the events."""
    running = serve()
    traced = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "r-1"}
    assert running.append("note/name-mark", {"text": "payload-mark"}, headers=traced).status_code == 201
    running.get("/v1/events?org=query-mark")
    assert running.client.get("/v1/runs/none").status_code == 404
    running.service.operations.sampler.sample(fresh=True)
    running.service.operations.telemetry.stop()
    spans = {span.name: span for span in collector.spans}
    append = spans["POST /v1/streams/{kind}/{name}/events"]
    assert (append.trace_id.hex(), append.parent_span_id.hex()) == (TRACE, PARENT)
    assert attributes(append) == {
        "http.request.method": "POST",
        "http.route": "/v1/streams/{kind}/{name}/events",
        "http.response.status_code": 201,
        "tally.request_id": "r-1",
    }
    assert append.end_time_unix_nano > append.start_time_unix_nano
    assert attributes(spans["GET /v1/runs/{run}"])["http.response.status_code"] == 404
    figures = collector.metrics
    assert figures["tally_events_recorded_total"].sum.data_points[0].as_double == 1
    assert figures["tally_log_head"].gauge.data_points[0].as_double == 1
    assert figures["tally_append_seconds_count"].sum.data_points[0].as_double == 1
    sent = b"".join(body for _, body in collector.bodies)
    assert not [mark for mark in (b"payload-mark", b"name-mark", b"query-mark") if mark in sent]


def test_a_wrong_parent_makes_a_new_trace(serve, collector):
    """Whatever a caller writes into the header, the request is answered and has a span."""
    running = serve()
    for parent in ("nonsense", "00-zz-zz-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ö"):
        assert running.client.get("/health", headers={"traceparent": parent.encode("utf-8")}).status_code == 200
    running.service.operations.telemetry.stop()
    assert len([span for span in collector.spans if span.name == "GET /health" and not span.parent_span_id]) == 4


def test_a_collector_without_the_libraries_is_refused_by_name(monkeypatch):
    """Missing libraries are reported before anything listens; without a collector nothing is needed."""
    monkeypatch.setattr(telemetry, "LIBRARIES", ("no_such_library.sdk",))
    telemetry.require({})
    with pytest.raises(errors.InvalidValue, match=r"tallystick\[otel\]"):
        telemetry.require({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"})


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
    ],
)
def test_nothing_is_sent_unless_a_collector_is_named(environment, wanted):
    """Telemetry is off by default."""
    assert telemetry.is_wanted(environment) is wanted
