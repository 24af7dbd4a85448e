"""The projections page: how far each one is behind, and rebuilding one with progress."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from tallystick.projections import gauges
from tallystick.projections.gauges import Gauge
from tallystick.server.console import display, render, route
from tallystick.server.http.route import HttpRequest
from tallystick.server.jobs import Job
from tallystick.server.rebuild import begin_rebuild
from tallystick.server.sample import has_order
from tallystick.server.service import Service
from tallystick.store.views import Place, sound_definition

REBUILD = "rebuild"

pages = route.pages()
data = route.data()


@pages.get("/projections")
def show_projections(request: HttpRequest) -> Response:
    """Every projection and consumer with its lag."""
    service = request.service
    found = list(gauges(service.store)) if has_order(service.store) else []
    return render.page(
        request,
        "projections.html",
        here="/projections",
        title="Projections",
        projections=list(_projections(service, found)),
        consumers=[gauge for gauge in found if gauge.kind == "consumer"],
    )


def _projections(service: Service, found: list[Gauge]) -> Iterator[dict[str, Any]]:
    places = {place.projection: place for place in service.store.log.views.places() if place.live}
    for gauge in found:
        if gauge.kind == "projection":
            yield _projection(service, gauge, places.get(gauge.name))


def _projection(service: Service, gauge: Gauge, place: Place | None) -> dict[str, Any]:
    failure = service.failures.get(gauge.name, "")
    loaded = service.projections.get(gauge.name)
    behind = gauge.lag.events
    tone = "bad" if failure else "ok" if behind == 0 else "warn"
    defined = sound_definition(service.store.log.views, place) if place is not None else None
    jobs = [job for job in service.operations.jobs.all() if (job.kind, job.subject) == (REBUILD, gauge.name)]
    return {
        "name": gauge.name,
        "version": defined.version if defined else getattr(loaded, "version", "?"),
        "epoch": place.epoch if place is not None else 0,
        "tone": tone,
        "says": "stopped" if failure else "caught up" if behind == 0 else f"{behind:,} events behind",
        "position": gauge.lag.position,
        "behind": behind,
        "seconds": gauge.lag.seconds,
        "keyed": defined.key if defined else "its own tables",
        "types": defined.types if defined else list(getattr(loaded, "types", ())),
        "failure": failure,
        "loaded": loaded is not None,
        "job": next((job.id for job in jobs if job.state == "running"), ""),
        "rebuilt": _last(next((job for job in jobs if job.state != "running"), None), service.store.clock()),
    }


def _last(job: Job | None, now: int) -> str:
    if job is None or job.ended is None:
        return ""
    why = f": {job.problem['message']}" if job.problem else ""
    return f"Last rebuild {job.state}, {display.ago(job.ended, now)}{why}"


@data.post("/projections/{name}/rebuild")
def rebuild(request: HttpRequest, name: str) -> Response:
    """Begin to rebuild the rows of a projection."""
    by = request.principal.actor
    return render.data({"id": begin_rebuild(request.service, name, by=by).id})
