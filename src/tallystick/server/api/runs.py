"""Runs: how each one is going, its graph, and who did what, when, from which commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tallystick import errors, runs
from tallystick.event import names
from tallystick.runs.graph import INPUT, drawing
from tallystick.runs.journal import UNREADABLE
from tallystick.runs.state import RunState
from tallystick.server.access import Need, Principal
from tallystick.server.api.parameters import Label, Time
from tallystick.server.api.reply import READ, reply
from tallystick.server.http import problems
from tallystick.server.http.route import HttpRequest, Routes
from tallystick.server.service import Service
from tallystick.store import iterate
from tallystick.store.page import StreamInfo

PAGE = 50

RUNS = "run/"
FIRST = "RUN_CREATED"
SCANNED_MAX = 5_000

Limit = Annotated[int, Meta(ge=1, le=200)]
Cursor = Annotated[str, Meta(max_length=200)]

routes = Routes("runs")


@routes.get("/v1/runs", Need.READ, READ)
async def list_runs(request: HttpRequest, after: Cursor = "", limit: Limit = PAGE) -> Response:
    """The runs by id, with their states."""
    service = request.service
    return reply(await service.run(_listed, service, request.principal, after=after, limit=limit))


@routes.get("/v1/runs/{run}", Need.READ, READ)
async def read_run(request: HttpRequest, run: str) -> Response:
    """The state of a run and of each of its nodes, and its graph."""
    return reply(await request.service.run(_run, request.service, request.principal, run))


@routes.get("/v1/telemetry", Need.READ, READ)
async def read_telemetry(
    request: HttpRequest,
    run: Label | None = None,
    node: Label | None = None,
    worker: Label | None = None,
    actor: Label | None = None,
    artifact: Label | None = None,
    commit: Label | None = None,
    time_from: Time | None = None,
    time_until: Time | None = None,
    after: Cursor = "",
    limit: Limit = PAGE,
) -> Response:
    """Every attempt at every node, for audit: who did what, when, with which inputs and outputs, from which commit.

    `limit` counts runs. Continue after `next`.
    """
    question = runs.ActivityQuery(
        run=run,
        node=node,
        worker=worker,
        actor=actor,
        artifact=artifact,
        commit=commit,
        time_from=time_from,
        time_until=time_until,
    )
    service = request.service
    return reply(await service.run(_telemetry, service, request.principal, question, after=after, limit=limit))


def _listed(service: Service, principal: Principal, *, after: str, limit: int) -> dict[str, Any]:
    """The runs that the principal may see, by id; `next` is where to continue."""
    chosen, following = _chosen(service, principal, after=after, limit=limit)
    return {"runs": [_summary(service, run) for run in chosen], "next": following}


def _chosen(service: Service, principal: Principal, *, after: str, limit: int) -> tuple[list[str], str | None]:
    """Runs after a cursor, and where to continue. It looks at a bounded number of streams."""
    found: list[str] = []
    for scanned, info in enumerate(_streams(service, service.bookmarks.place(after)), 1):
        run = info.stream.removeprefix(RUNS)
        if not service.visibility.hides(principal, info.stream, info.org) and _is_run(service, info.stream):
            found.append(run)
            if len(found) >= limit:
                return found, run
        if scanned >= SCANNED_MAX:
            return found, run if principal.org is None else service.bookmarks.keep(run)  # it may belong to another org
    return found, None


def _streams(service: Service, after: str) -> Iterator[StreamInfo]:
    return iterate.streams(service.store.log, after=RUNS + after, prefix=RUNS)


def _is_run(service: Service, stream: str) -> bool:
    try:
        first = service.store.read_stream(stream, limit=1)
    except (errors.Damaged, errors.HistoryPruned):
        return True
    return bool(first) and first[0].type == FIRST


def _summary(service: Service, run: str) -> dict[str, Any]:
    try:
        state = runs.load(service.store, run).state
    except UNREADABLE as problem:
        return {"run": run, "unreadable": problems.public(problem).message}
    return {
        "run": run,
        "workflow": state.workflow,
        "state": state.run_state,
        "nodes": len(state.work_items),
        "finished": sum(item.state == "finished" for item in state.work_items),
        "open_issues": sum(issue.state == "open" for issue in state.issues),
        "created": state.created_at,
        "updated": state.updated_at,
    }


def _run(service: Service, principal: Principal, run: str) -> dict[str, Any]:
    state = _loaded(service, principal, run)
    return {
        "run": state.run_id,
        "workflow": state.workflow,
        "state": state.run_state,
        "events": state.seq,
        "created": state.created_at,
        "updated": state.updated_at,
        "parent": msgspec.to_builtins(state.parent),
        "nodes": [msgspec.to_builtins(item) for item in state.work_items],
        "artifacts": msgspec.to_builtins(state.artifacts_index),
        "issues": msgspec.to_builtins(state.issues),
        "graph": _graph(state),
    }


def _graph(state: RunState) -> dict[str, Any]:
    """The graph of the nodes. An input and a node may have the same name, so an edge says which one it starts from."""
    drawn = drawing(state)
    return {
        "inputs": [name.removeprefix(INPUT) for name in drawn.inputs],
        "nodes": [item.node for item in drawn.items],
        "edges": [
            {
                "source": edge.source.removeprefix(INPUT),
                "from_input": edge.source.startswith(INPUT),
                "target": edge.target,
                "label": edge.label,
            }
            for edge in drawn.edges
        ],
    }


def _loaded(service: Service, principal: Principal, run: str) -> RunState:
    """The state of a run that the principal may see; `NothingHere` otherwise."""
    names.stream_kind(RUNS + run)
    service.visibility.require(principal, RUNS + run)
    return runs.load(service.store, run).state


def _telemetry(
    service: Service, principal: Principal, question: runs.ActivityQuery, *, after: str, limit: int
) -> dict[str, Any]:
    """The attempts that match a question, of a bounded number of runs; `next` is where to continue."""
    if question.run is not None:
        names.stream_kind(RUNS + question.run)
        service.visibility.require(principal, RUNS + question.run)
        return _answer(service, question, [question.run]) | {"next": None}
    chosen, following = _chosen(service, principal, after=after, limit=limit)
    return _answer(service, question, chosen) | {"next": following}


def _answer(service: Service, question: runs.ActivityQuery, chosen: list[str]) -> dict[str, Any]:
    activities: list[Any] = []
    unreadable: dict[str, str] = {}
    for run in chosen:
        found = runs.telemetry(service.store, msgspec.structs.replace(question, run=run))
        activities += msgspec.to_builtins(found.activities)
        unreadable |= found.unreadable
    return {"activities": activities, "unreadable": unreadable}
