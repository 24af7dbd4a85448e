"""Runs: how they stand, and who did what in them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tallystick import runs
from tallystick.server import running
from tallystick.server.access import Reader
from tallystick.server.api.order import answer, read_answers
from tallystick.server.api.parameters import Label, Time, service_of

router = APIRouter(tags=["runs"])

PAGE = 50

Limit = Annotated[int, Query(ge=1, le=200)]
Cursor = Annotated[str, Query(max_length=200)]


@router.get("/v1/runs", responses=read_answers())
async def list_runs(request: Request, who: Reader, after: Cursor = "", limit: Limit = PAGE) -> Response:
    """The runs in order of id, with their states."""
    service = service_of(request)
    return answer(await service.run(running.listed, service, who, after=after, limit=limit))


@router.get("/v1/runs/{run}", responses=read_answers())
async def read_run(run: str, request: Request, who: Reader) -> Response:
    """How a run stands, node by node, and its graph."""
    service = service_of(request)
    return answer(await service.run(running.one, service, who, run))


@router.get("/v1/telemetry", responses=read_answers())
async def read_telemetry(
    request: Request,
    who: Reader,
    run: Label = None,
    node: Label = None,
    worker: Label = None,
    actor: Label = None,
    artifact: Label = None,
    commit: Label = None,
    time_from: Time = None,
    time_until: Time = None,
    after: Cursor = "",
    limit: Limit = PAGE,
) -> Response:
    """Who did what, when, with which inputs and outputs, from which commit: every attempt at every node, for audit.

    `limit` counts runs; go on after `next`.
    """
    question = runs.Question(
        run=run,
        node=node,
        worker=worker,
        actor=actor,
        artifact=artifact,
        commit=commit,
        time_from=time_from,
        time_until=time_until,
    )
    service = service_of(request)
    return answer(await service.run(running.telemetry, service, who, question, after=after, limit=limit))
