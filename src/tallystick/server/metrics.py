"""What Prometheus scrapes at /metrics. Each service has its own registry, so that several in one process do not mix.

Events are counted as they happen. The state of the store (sizes, lag, damage) is sampled when somebody asks.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tallystick import errors
from tallystick.server.sample import Sample
from tallystick.store import gauges
from tallystick.store.backoff import retries
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.events import EventLog
from tallystick.store.store import Store

if TYPE_CHECKING:
    from tallystick.server.jobs import Job
    from tallystick.server.operations import Operations

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_OTHER = "other"
_ROUTES_MAX = 200


class Metrics:
    """The counters of a service. Most methods are called in the event loop, so they must be quick."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(support_collectors_without_names=True)
        counter = functools.partial(Counter, registry=self.registry)
        gauge = functools.partial(Gauge, registry=self.registry)
        histogram = functools.partial(Histogram, registry=self.registry)
        self._requests = counter("tally_http_requests", "Requests answered.", ["route", "method", "status"])
        self._seconds = histogram("tally_http_request_seconds", "Time to answer.", ["route"], buckets=SECONDS)
        self._refusals = counter("tally_http_refusals", "Requests refused, by code.", ["code"])
        self._appends = counter("tally_appends", "Appends acknowledged over HTTP.")
        self._append_bytes = counter("tally_append_body_bytes", "Bytes of acknowledged append bodies.")
        self._append_seconds = histogram(
            "tally_append_seconds", "From an append's body to its acknowledgement.", buckets=SECONDS
        )
        self._events = counter("tally_events_recorded", "Events recorded by this process.")
        self._commit_seconds = histogram(
            "tally_commit_seconds", "Time of a commit, its fsync included.", buckets=SECONDS
        )
        self._commits_refused = counter("tally_appends_refused", "Appends that the store refused.")
        self._commit_failures = counter("tally_commit_failures", "Commits that failed.", ["error"])
        self._poisoned = gauge("tally_writer_poisoned", "1 while the writer acknowledges nothing.")
        self._followers = gauge("tally_followers", "Open followers.")
        self._dropped = counter("tally_followers_dropped", "Followers disconnected because they read too slowly.")
        self._snapshots = counter("tally_snapshots", "Snapshots made and failed.", ["result"])
        self._scheduled = counter("tally_scheduler_jobs", "Jobs that the scheduler ran.", ["job", "result"])
        self._inserted = counter(
            "tally_community_events", "Events that the log of a community accepted.", ["origin", "code"]
        )
        self._jobs = counter("tally_jobs", "Long operations that are over.", ["kind", "state"])
        for result in ("made", "failed"):
            self._snapshots.labels(result)
        self._by_route: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self.failure: errors.TallyError | None = None

    # --- what happens ----------------------------------------------------------------------------------------------

    def request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered. `route` is the path with the names of its parameters, so there are few of them."""
        key = (route, method, status)
        found = self._by_route.get(key)
        if found is None:
            if len(self._by_route) >= _ROUTES_MAX:  # a caller cannot create names without bound
                key, route, method = (_OTHER, _OTHER, status), _OTHER, _OTHER
            found = (self._requests.labels(route, method, str(status)), self._seconds.labels(route))
            self._by_route[key] = found
        found[0].inc()
        found[1].observe(seconds)

    def appended(self, *, events: int, size: int, seconds: float) -> None:
        """An append of so many events, in a body of so many bytes, is durable."""
        self._appends.inc()
        self._append_bytes.inc(size)
        self._append_seconds.observe(seconds)

    def refused(self, *, code: str) -> None:
        """A request was refused with this code."""
        self._refusals.labels(code).inc()

    def followers(self, count: int) -> None:
        """The number of followers has changed."""
        self._followers.set(count)

    def dropped(self) -> None:
        """A follower was disconnected because it read too slowly."""
        self._dropped.inc()

    def snapshot(self, *, made: bool) -> None:
        """A snapshot was made, or making one failed."""
        self._snapshots.labels("made" if made else "failed").inc()

    def fired(self, *, job: str, ok: bool) -> None:
        """The scheduler ran a job."""
        self._scheduled.labels(job, "done" if ok else "failed").inc()

    def inserted(self, entry: object, origin: str, code: str | None) -> None:
        """The log of a community accepted an event, its own or another's; `code` says why the event does not count."""
        self._inserted.labels(origin, code or "counts").inc()

    def job_ended(self, job: Job) -> None:
        """A long operation is over."""
        self._jobs.labels(job.kind, job.state).inc()
        if job.kind == "snapshot":
            self.snapshot(made=job.state == "done")

    # --- commits ---------------------------------------------------------------------------------------------------

    def measure(self, store: Store) -> None:
        """Measure every commit of this store from now on."""
        store.log = cast(EventLog, gauges.MeteredLog(store.log, cast(gauges.Meter, self)))

    def commit(self, log: EventLog, transactions: Sequence[Transaction]) -> list[Outcome]:
        """Commit, and count it. A writer that failed is poisoned until a commit succeeds."""
        began = time.perf_counter()
        try:
            outcomes = log.commit(transactions)
        except errors.TallyError as problem:
            self._commit_failures.labels(type(problem).__name__).inc()
            if isinstance(problem, errors.StoreFailed):
                self.failure = problem
                self._poisoned.set(1)
            raise
        self._commit_seconds.observe(time.perf_counter() - began)
        done = [outcome for outcome in outcomes if isinstance(outcome, list)]
        self._events.inc(sum(part.last_seq - part.first_seq + 1 - part.stored for parts in done for part in parts))
        if len(done) != len(outcomes):
            self._commits_refused.inc(len(outcomes) - len(done))
        if self.failure is not None and done:
            self.failure = None
            self._poisoned.set(0)
        return outcomes

    def page(self) -> bytes:
        """The page for Prometheus."""
        return generate_latest(self.registry)


class Sampled:
    """A collector for the sampled values. It reads the store, so the page is made in a thread."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def describe(self) -> Iterator[Metric]:
        """Nothing, so that registering does not read the store."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The sampled values."""
        sample = self._operations.sampler.sample()
        yield from _of_store(sample)
        yield from _of_lags(sample)
        yield from self._of_process()

    def _of_process(self) -> Iterator[Metric]:
        operations = self._operations
        for name, help_, value in operations.gauges():
            yield GaugeMetricFamily(name, help_, value=value)
        at_work = GaugeMetricFamily("tally_projection_running", "1 while its runner is running.", labels=["name"])
        for name, running in operations.runners().items():
            at_work.add_metric([name], float(running))
        yield at_work
        again = CounterMetricFamily("tally_retries", "Transient failures that were retried.", labels=["what"])
        for what, count in retries().items():
            again.add_metric([what], count)
        yield again


def _of_store(sample: Sample) -> Iterator[Metric]:
    single: tuple[tuple[str, str, float | None], ...] = (
        ("tally_store_up", "1 if the store answered.", float(not sample.failure)),
        ("tally_log_head", "The highest final position.", sample.head),
        ("tally_log_floor", "The highest pruned position.", sample.floor),
        ("tally_log_bytes", "The size of the log.", sample.bytes),
        ("tally_log_growth_events_per_day", "Events recorded within the last day.", sample.events_per_day),
        ("tally_disk_free_bytes", "Free space where the log is.", sample.free_bytes),
        ("tally_log_holes", "Damaged ranges that are known.", sample.holes),
        ("tally_store_problems", "Problems that the engine reports.", len(sample.problems)),
    )
    for name, help_, value in single:
        if value is not None:
            yield GaugeMetricFamily(name, help_, value=value)


def _of_lags(sample: Sample) -> Iterator[Metric]:
    labels = ["kind", "name"]
    events = GaugeMetricFamily("tally_lag_events", "Positions not seen yet.", labels=labels)
    seconds = GaugeMetricFamily("tally_lag_seconds", "Age of the oldest event not seen yet.", labels=labels)
    letters = GaugeMetricFamily("tally_dead_letters", "Events given up on.", labels=["consumer"])
    for gauge in sample.lags:
        events.add_metric([gauge.kind, gauge.name], gauge.lag.events)
        seconds.add_metric([gauge.kind, gauge.name], gauge.lag.seconds)
        if gauge.kind == "consumer":
            letters.add_metric([gauge.name], gauge.dead_letters)
    yield from (events, seconds, letters)
