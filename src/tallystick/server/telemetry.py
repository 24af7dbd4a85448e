"""OpenTelemetry, if the environment names a collector: one span per request and the metrics, by OTLP/HTTP.

It needs the extra `otel`. Endpoint, headers, sampler and interval are OpenTelemetry's own settings (`OTEL_…`). A span
contains the route, the method, the status and the id of the request, never a path, a query, a header or a payload.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from tallystick import errors

ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
LIBRARIES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
DISABLED = "OTEL_SDK_DISABLED"
SERVICE_NAME = "tallystick"
FLUSH_MS = 3000


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment names a collector."""
    off = environment.get(DISABLED, "").strip().lower() == "true"
    return not off and any(environment.get(name) for name in ENDPOINTS)


def require(environment: Mapping[str, str]) -> None:
    """Refuse an environment that names a collector if the libraries for it are missing."""
    missing = [name for name in LIBRARIES if is_wanted(environment) and not _is_installed(name)]
    if missing:
        must = f"unset, because {missing[0]} is not installed: pip install 'tallystick[otel]'"
        raise errors.InvalidValue(what=ENDPOINTS[0], value="…", must=must)


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def start(registry: CollectorRegistry, environment: Mapping[str, str]) -> TelemetryExporter | None:
    """The exporter of a service; None if the environment names no collector."""
    return TelemetryExporter(registry, environment) if is_wanted(environment) else None


class TelemetryExporter:
    """Sends spans and metrics. It has its own providers, so that nothing global changes."""

    def __init__(self, registry: CollectorRegistry, environment: Mapping[str, str]) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import SERVICE_NAME as NAME_KEY
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        resource = Resource.create({NAME_KEY: environment.get("OTEL_SERVICE_NAME", SERVICE_NAME)})
        self._stopped = False
        self._propagator = TraceContextTextMapPropagator()
        self._tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._tracing.get_tracer(SERVICE_NAME)
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        self._metering = MeterProvider(metric_readers=[reader], resource=resource, shutdown_on_exit=False)
        _bridge(registry, self._metering.get_meter(SERVICE_NAME))

    def request(
        self, *, method: str, route: str, status: int, seconds: float, request_id: str = "", parent: str = ""
    ) -> None:
        """Send the span of a request that was just answered. `parent` is its `traceparent` header, if any."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        ended = time.time_ns()
        attributes: dict[str, str | int] = {"http.request.method": method, "http.route": route}
        attributes["http.response.status_code"] = status
        if request_id:
            attributes["tally.request_id"] = request_id
        span = self._tracer.start_span(
            f"{method} {route}",
            context=self._propagator.extract({"traceparent": parent}) if parent else None,
            kind=SpanKind.SERVER,
            attributes=attributes,
            start_time=ended - round(seconds * 1e9),
        )
        if status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)

    def stop(self) -> None:
        """Send the queued data, for a bounded time, and stop. It is safe to call twice."""
        if self._stopped:
            return
        self._stopped = True
        self._tracing.force_flush(FLUSH_MS)
        self._metering.force_flush(FLUSH_MS)
        self._tracing.shutdown()
        self._metering.shutdown(FLUSH_MS)


def _bridge(registry: CollectorRegistry, meter: Any) -> None:
    """Offer every metric family of the registry under its own name."""
    for family in registry.collect():
        if family.type == "counter":
            name = f"{family.name}_total"
            meter.create_observable_counter(name, [_observed(registry, name)], description=family.documentation)
        elif family.type == "gauge":
            meter.create_observable_gauge(
                family.name, [_observed(registry, family.name)], description=family.documentation
            )
        elif family.type == "histogram":
            for name in (f"{family.name}_count", f"{family.name}_sum"):
                meter.create_observable_counter(name, [_observed(registry, name)], description=family.documentation)


def _observed(registry: CollectorRegistry, name: str) -> Callable[[Any], Iterator[Any]]:
    def observe(options: Any) -> Iterator[Any]:
        from opentelemetry.metrics import Observation

        for family in registry.restricted_registry([name]).collect():
            for sample in family.samples:
                if sample.name == name:
                    yield Observation(float(sample.value), dict(sample.labels))

    return observe
