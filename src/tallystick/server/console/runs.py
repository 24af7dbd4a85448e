"""The runs page, and the page of one run: its graph with the state of every node, updated while it runs."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tallystick import errors
from tallystick.runs import journal
from tallystick.runs.graph import INPUT, drawing, layers
from tallystick.runs.picture import duration
from tallystick.runs.state import RunState, WorkItem
from tallystick.server.console import display, render, route
from tallystick.server.http.route import HttpRequest
from tallystick.store.store import Store

PAGE_RUNS = 25
OVER = frozenset({"finished", "failed"})
TONES = {"finished": "ok", "failed": "bad", "running": "live", "stale": "warn"}
_RUNS = "run/"

pages = route.pages()
data = route.data()


@pages.get("/runs")
def show_runs(request: HttpRequest, after: str = "") -> Response:
    """Runs by id, a page at a time."""
    service = request.service
    found = service.store.streams(after=_RUNS + after, limit=PAGE_RUNS + 1)
    mine = [info for info in found if info.stream.startswith(_RUNS)]
    shown_runs = [info.stream.removeprefix(_RUNS) for info in mine[:PAGE_RUNS]]
    return render.page(
        request,
        "runs.html",
        here="/runs",
        title="Runs",
        runs=[_line(service.store, run) for run in shown_runs],
        after=after,
        following=shown_runs[-1] if len(mine) > PAGE_RUNS else "",
    )


def _line(store: Store, run: str) -> dict[str, Any]:
    try:
        state = journal.load(store, run).state
    except errors.TallyError as problem:
        blank = {"workflow": "", "finished": "", "seq": 0, "updated": 0}
        return blank | {"run": run, "state": "unreadable", "tone": "bad", "why": problem.message}
    done = sum(item.state == "finished" for item in state.work_items)
    return {
        "run": run,
        "workflow": state.workflow,
        "state": state.run_state,
        "tone": TONES.get(state.run_state, ""),
        "why": "",
        "finished": f"{done} of {len(state.work_items)}",
        "seq": state.seq,
        "updated": state.updated_at,
    }


@pages.get("/runs/{run}")
def show_run(request: HttpRequest, run: str) -> Response:
    """One run."""
    state = _load(request.service.store, run)
    return render.page(
        request,
        "run.html",
        here="/runs",
        title=run,
        state=state,
        data=run_data(state),
        issues=[issue for issue in state.issues if issue.state == "open"],
        artifacts=sorted(state.artifacts_index.items()),
    )


@data.get("/runs/{run}")
def run_now(request: HttpRequest, run: str, after: int = 0) -> Response:
    """The state of a run; only its seq if it has not grown."""
    store: Store = request.service.store
    head = _head(store, run)
    if head == after:
        return render.data({"seq": head, "over": False})
    return render.data(run_data(_load(store, run)))


def _head(store: Store, run: str) -> int:
    try:
        head = store.stream_head(journal.stream_of(run))
    except errors.InvalidName:
        head = None
    if head is None:
        raise errors.NothingHere()
    return head.seq


def _load(store: Store, run: str) -> RunState:
    _head(store, run)
    return journal.load(store, run).state


def run_data(state: RunState) -> dict[str, Any]:
    """A run, as the script of its page takes it."""
    done = sum(item.state == "finished" for item in state.work_items)
    return {
        "seq": state.seq,
        "state": state.run_state,
        "tone": TONES.get(state.run_state, ""),
        "says": f"{done} of {len(state.work_items)} nodes finished, {state.seq:,} events",
        "over": state.run_state in OVER,
        "graph": _graph(state),
        "nodes": [_node(item) for item in state.work_items],
    }


def _graph(state: RunState) -> dict[str, Any]:
    found = drawing(state)
    nodes: dict[str, Any] = {
        name: {"name": display.plain(name.removeprefix(INPUT)), "fact": "input", "state": "input"}
        for name in found.inputs
    }
    for item in found.items:
        title = f"{item.node}: {item.state}"
        nodes[item.node] = {"name": display.plain(item.node), "fact": _fact(item), "state": item.state, "title": title}
    edges = [{"source": edge.source, "target": edge.target, "label": display.plain(edge.label)} for edge in found.edges]
    return {"columns": layers(found), "nodes": nodes, "edges": edges}


def _fact(item: WorkItem) -> str:
    return ", ".join(part for part in (item.state, _took(item)) if part)


def _took(item: WorkItem) -> str:
    last = item.history[-1] if item.history else None
    return duration(last.ended_at - last.started_at) if last is not None and last.ended_at is not None else ""


def _node(item: WorkItem) -> dict[str, Any]:
    last = item.history[-1] if item.history else None
    says = item.stale_because if item.state == "stale" else last.error if last is not None else ""
    if item.inherited_from:
        says = f"inherited from {item.inherited_from}"
    return {
        "name": display.plain(item.node),
        "state": item.state,
        "tone": TONES.get(item.state, ""),
        "attempts": str(item.attempts or ""),
        "took": _took(item),
        "says": display.cut(display.plain(says or ""), 400)[0],
    }
