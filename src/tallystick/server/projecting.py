"""Projections as an operator sees them: where each is, how far behind, whether its runner works; and rebuilding one."""

from __future__ import annotations

from typing import Any

from tallystick import errors
from tallystick.projections import Lag, TableProjection, TableRunner, drop_projection, gauges, rebuild
from tallystick.projections.lag import lag_at
from tallystick.projections.retire import ProjectionDropped
from tallystick.server.jobs import Job, Progress
from tallystick.server.sample import has_order
from tallystick.server.service import Service
from tallystick.store.tables import live_places
from tallystick.store.views import Place


def listed(service: Service) -> list[dict[str, Any]]:
    """Every projection that the service runs or that has rows here, in order of name."""
    if not has_order(service.store):
        return []
    log = service.store.log
    places = {place.projection: place for place in live_places(log.views, log.view_tables)}
    return [_told(service, name, places.get(name)) for name in sorted(places.keys() | service.projections.keys())]


def _told(service: Service, name: str, place: Place | None) -> dict[str, Any]:
    lag = lag_at(service.store, place.position if place is not None else 0)
    running = name in service.projections and name not in service.failures
    job = next((job for job in service.operations.jobs.all() if (job.kind, job.subject) == ("rebuild", name)), None)
    return {
        "name": name,
        "epoch": place.epoch if place is not None else None,
        "registered": name in service.projections,
        "running": running,
        "failure": service.failures.get(name),
        "rebuild": job.id if job is not None else None,
    } | told_lag(lag)


def told_lag(lag: Lag) -> dict[str, Any]:
    """A lag as JSON."""
    return {"position": lag.position, "head": lag.head, "lag_events": lag.events, "lag_seconds": lag.seconds}


def consumers(service: Service) -> list[dict[str, Any]]:
    """Every consumer that keeps its place here, with its lag and its dead letters."""
    found = gauges(service.store) if has_order(service.store) else ()
    return [
        {"name": gauge.name, "dead_letters": gauge.dead_letters} | told_lag(gauge.lag)
        for gauge in found
        if gauge.kind == "consumer"
    ]


def begin_rebuild(service: Service, name: str, *, by: str) -> Job:
    """Make the rows of a projection anew, in the background. Only its code can: it must be registered."""
    projection = service.projections.get(name)
    if projection is None:
        raise errors.NothingHere()

    def work(progress: Progress) -> dict[str, Any]:
        made = _rebuilt(service, projection, progress)
        if name in service.failures:  # rows of an older definition are what stops a runner most often
            service.run_projection(name)
        return made

    return service.operations.jobs.begin("rebuild", work, subject=name, total=service.store.head(), by=by)


def drop(service: Service, name: str, *, by: str, reason: str) -> ProjectionDropped:
    """Drop a projection. One that this service runs would only make its rows again."""
    if name in service.projections and name not in service.failures:
        raise errors.ReaderRuns(kind="projection", name=name)
    return drop_projection(service.store, name, by=by, reason=reason)


def _rebuilt(service: Service, projection: Any, progress: Progress) -> dict[str, Any]:
    if isinstance(projection, TableProjection):
        return {"position": TableRunner(service.store, projection).rebuild(progress=progress)}
    made = rebuild(service.store, projection, progress=progress)
    return {"position": made.position, "epoch": made.epoch}
