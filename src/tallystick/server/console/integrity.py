"""The integrity page: verifying the whole log with progress, and the chain around each problem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from tallystick import errors
from tallystick.server.console import display, links, render, route
from tallystick.server.http.route import HttpRequest
from tallystick.server.verification import begin_verify
from tallystick.store.store import Store

PROBLEMS_DRAWN = 12
HOLES_DRAWN = 8
VERIFY = "verify"

pages = route.pages()
data = route.data()


@pages.get("/integrity")
def show_integrity(request: HttpRequest) -> Response:
    """What is known to be wrong, and the last verification."""
    service = request.service
    jobs = [job for job in service.operations.jobs.all() if job.kind == VERIFY]
    last = next((job for job in jobs if job.state == "done"), None)
    report = last.result if last is not None else None
    known = service.store.report()
    problems = report["problems"] if report else []
    ended = display.ago(last.ended, service.store.clock()) if last is not None and last.ended else ""
    return render.page(
        request,
        "integrity.html",
        here="/integrity",
        title="Integrity",
        job=next((job.id for job in jobs if job.state == "running"), ""),
        report=report,
        verified=f"Verified {ended}." if ended else "",
        problems=list(_drawn(service.store, problems[:PROBLEMS_DRAWN])),
        unshown=max(0, len(problems) - PROBLEMS_DRAWN),
        holes=list(_holes(service.store)),
        recovered=known.recovered,
        facts=[(key.replace("_", " "), _value(key, value)) for key, value in known.facts.items()],
    )


def _value(key: str, value: Any) -> str:
    if not value and isinstance(value, (list, tuple, dict)):
        return "none"
    if key.endswith("bytes") and isinstance(value, int):
        return display.size(value)
    return display.count(value) if type(value) is int else display.cut(str(value), 300)[0]


def _drawn(store: Store, problems: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for problem in problems:
        yield problem | {"rings": _rings(store, problem["stream"], problem["seq"])}


def _rings(store: Store, stream: str, seq: int) -> list[links.Ring]:
    """The chain around a problem, if the problem names a stream and a seq."""
    if not stream or not seq:
        return []
    try:
        return links.of_stream(store, stream, seq)
    except errors.TallyError:  # damage may make its surroundings unreadable too
        return []


def _holes(store: Store) -> Iterator[dict[str, Any]]:
    for hole in store.holes()[:HOLES_DRAWN]:
        yield {"first": hole.first, "last": hole.last, "reason": hole.reason, "rings": links.around_hole(store, hole)}


@data.post("/integrity/verify")
def verify(request: HttpRequest) -> Response:
    """Begin to verify the whole log."""
    by = request.principal.actor
    return render.data({"id": begin_verify(request.service, by=by).id})
