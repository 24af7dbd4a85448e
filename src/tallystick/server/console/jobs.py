"""How a long operation stands, for the script that shows its progress."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tallystick.server.console.events import answer
from tallystick.server.console.sign_in import Operator
from tallystick.server.jobs import Job
from tallystick.server.service import Service

data = APIRouter(prefix="/console/data", dependencies=[Operator])


@data.get("/jobs/{id_}", include_in_schema=False)
def job_status(request: Request, id_: str) -> Response:
    """Progress of one job."""
    service: Service = request.app.state.service
    job = service.operations.jobs.get(id_)
    return answer(
        {"done": job.done, "total": job.total, "state": job.state, "says": _says(job), "over": job.state != "running"}
    )


def _says(job: Job) -> str:
    of = f" of {job.total:,}" if job.total else ""
    if job.problem:
        return f"{job.problem['message']} {job.problem.get('advice', '')}".strip()
    return f"{job.done:,}{of}, {job.state}"
