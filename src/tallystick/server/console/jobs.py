"""The progress of a long operation, for the script that shows it."""

from __future__ import annotations

from starlette.responses import Response

from tallystick.server.console import render, route
from tallystick.server.http.route import HttpRequest
from tallystick.server.jobs import Job

data = route.data()


@data.get("/jobs/{id_}")
def job_status(request: HttpRequest, id_: str) -> Response:
    """Progress of one job."""
    service = request.service
    job = service.operations.jobs.get(id_)
    return render.data(
        {"done": job.done, "total": job.total, "state": job.state, "says": _says(job), "over": job.state != "running"}
    )


def _says(job: Job) -> str:
    of = f" of {job.total:,}" if job.total else ""
    if job.problem:
        return f"{job.problem['message']} {job.problem.get('advice', '')}".strip()
    return f"{job.done:,}{of}, {job.state}"
