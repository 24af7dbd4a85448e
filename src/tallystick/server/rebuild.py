"""Rebuilding a projection while the service runs."""

from __future__ import annotations

from typing import Any

from tallystick import errors
from tallystick.projections import TableProjection, TableRunner, rebuild
from tallystick.server.jobs import Job, Progress
from tallystick.server.service import Service


def begin_rebuild(service: Service, name: str, *, by: str) -> Job:
    """Rebuild the rows of a projection in the background. The service must run the projection: it has the code."""
    projection = service.projections.get(name)
    if projection is None:
        raise errors.NothingHere()

    def work(progress: Progress) -> dict[str, Any]:
        made = _rebuilt(service, projection, progress)
        if name in service.failures:  # rows of an older definition are what stops a runner most often
            service.run_projection(name)
        return made

    return service.operations.jobs.begin("rebuild", work, subject=name, total=service.store.head(), by=by)


def _rebuilt(service: Service, projection: Any, progress: Progress) -> dict[str, Any]:
    if isinstance(projection, TableProjection):
        return {"position": TableRunner(service.store, projection).rebuild(progress=progress)}
    made = rebuild(service.store, projection, progress=progress)
    return {"position": made.position, "epoch": made.epoch}
