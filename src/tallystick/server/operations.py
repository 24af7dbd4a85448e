"""What an operator needs of a service: metrics, samples, jobs, upkeep and telemetry."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tallystick import errors
from tallystick.scheduler import Fired
from tallystick.server import logs, telemetry
from tallystick.server.jobs import Job, Jobs
from tallystick.server.metrics import Sampled
from tallystick.server.sample import Sampler
from tallystick.server.upkeep import SchedulerThread
from tallystick.state.policy import policy

if TYPE_CHECKING:
    from tallystick.server.gossip import Community
    from tallystick.server.service import Service


PATIENT = ("/follow", "/tail", "/wait")
"""Routes with these endings take long by design."""


class Operations:
    """The operations of one service. They are created, started and stopped with it."""

    def __init__(
        self,
        service: Service,
        *,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.service = service
        self.metrics = service.metrics
        self.policy = policy(environment=environment)
        self.sampler = Sampler(service.store)
        self.jobs = Jobs(clock=service.store.clock, ended=self._ended)
        self.upkeep: SchedulerThread | None = None
        self.telemetry: telemetry.TelemetryExporter | None = None
        self.free_bytes_min = service.limits.free_bytes_min
        self.verified: Job | None = None
        self.community: Community | None = _community(service)  # refuse what cannot be opened before anything listens
        if self.community is not None:
            self.community.log.on_insert.append(self.metrics.inserted)
        telemetry.require(environment)
        self._environment = environment
        self.metrics.registry.register(Sampled(self))

    def start(self) -> None:
        """Start telemetry, upkeep and the community. A store that is open for reading gets no upkeep."""
        self.telemetry = telemetry.start(self.metrics.registry, self._environment)
        if not self.service.store.log.readonly:
            self.metrics.measure(self.service.store)
            self.upkeep = SchedulerThread(
                self.service.store,
                self.service.own_reducers,
                self.policy,
                archive=self.service.open_archive,
                tell=self._fired,
            )
            self.upkeep.start()
        if self.community is not None:
            self.community.start()
        logs.log(logging.INFO, "the service has started", engine=self.service.store.log.engine)

    async def stop(self) -> None:
        """Stop all of it, before the store is closed."""
        if self.community is not None:
            await self.community.stop()
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self.jobs.stop()
        if self.upkeep is not None:
            self.upkeep.stop()
        if self.telemetry is not None:
            self.telemetry.stop()
        logs.log(logging.INFO, "the service has stopped")

    def watched(self, scope: Any, *, route: str, status: int, seconds: float) -> None:
        """Log a request that was answered, and send a span if there is a collector."""
        method, request_id = scope["method"], scope["tally.request_id"]
        who = scope.get("tally.principal")
        logs.request(
            method=method,
            route=route,
            status=status,
            seconds=seconds,
            patient=route.endswith(PATIENT),
            request_id=request_id,
            by=who and who.kind,
        )
        if self.telemetry is not None:
            parent = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"traceparent"), "")
            self.telemetry.request(
                method=method, route=route, status=status, seconds=seconds, request_id=request_id, parent=parent
            )

    # --- gauges --------------------------------------------------------------------------------------------------

    def runners(self) -> dict[str, bool]:
        """The projections that the service runs, and whether each runner is running."""
        failures = self.service.failures
        return {name: name not in failures for name in self.service.projections}

    def stopped_projections(self) -> dict[str, str]:
        """The projections whose runner failed, and why."""
        return {name: self.service.failures[name] for name, running in self.runners().items() if not running}

    def gauges(self) -> Iterator[tuple[str, str, float]]:
        """The gauges of this process: name, help, value."""
        service = self.service
        yield "tally_append_queue_requests", "Appends in progress.", service.appends.count
        yield "tally_append_queue_bytes", "Bytes of appends in progress.", service.appends.bytes
        yield "tally_reads_running", "Reads in progress.", service.reads.count
        yield "tally_waits_running", "Waits for a projection in progress.", service.waits.count
        yield "tally_jobs_running", "Long operations in progress.", self.jobs.running
        if self.upkeep is not None:
            yield "tally_scheduler_running", "1 while the scheduler is running.", float(self.upkeep.is_running)
            yield "tally_scheduler_lag_seconds", "Time since the scheduler last checked.", self.upkeep.behind_seconds
        if self.community is not None:
            yield "tally_community_emergency", "1 in emergency mode.", float(self.community.upkeep.schedule.emergency)
            yield "tally_community_held_events", "Events that wait for others.", len(self.community.log.replica.held)
        if self.verified is not None and self.verified.ended is not None:
            yield "tally_verified_timestamp_seconds", "When the log was last verified.", self.verified.ended / 1e9
            yield "tally_verify_problems", "Problems that it found.", len(self.verified.result["problems"])

    def _fired(self, fired: Fired) -> None:
        if fired.job.endswith("snapshot"):
            self.metrics.snapshot(made=fired.ok)
        self.metrics.fired(job=fired.job, ok=fired.ok)
        level = logging.INFO if fired.ok else logging.WARNING
        logs.log(level, "the scheduler ran a job" if fired.ok else "a job of the scheduler failed", job=fired.job)

    def _ended(self, job: Job) -> None:
        self.metrics.job_ended(job)
        if job.kind == "verify" and job.state == "done":
            self.verified = job
        fields: dict[str, Any] = {"job": job.id, "kind": job.kind, "state": job.state}
        logs.log(logging.INFO if job.state == "done" else logging.WARNING, "a job is over", **fields)


def _community(service: Service) -> Community | None:
    """The community whose log is served; None if it is not a community's log, or is only read."""
    if service.store.profile.name != "community" or service.store.log.readonly:
        return None
    try:
        from tallystick.server import gossip
    except ModuleNotFoundError as missing:
        raise errors.NotLoadable(
            reference="tallystick.community",
            reason=f"{missing.name} is not installed: pip install 'tallystick[community]'",
        ) from missing
    directory = gossip.directory_of(service.settings.url)
    return (
        gossip.Community(service.store, directory, hour=service.settings.snapshot_hour)
        if directory is not None
        else None
    )
