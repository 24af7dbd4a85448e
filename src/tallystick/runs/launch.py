"""Start and resume runs: checks, the facts recorded before the first node, and what is stale."""

from __future__ import annotations

import os
import platform
import secrets
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from tallystick import errors
from tallystick.event import names
from tallystick.runs import code, journal, recovery, runner_guard
from tallystick.runs.facts import (
    ArtifactSeen,
    ArtifactStale,
    NodeDeclared,
    NodeRemoved,
    NodeStale,
    Output,
    RunCreated,
    RunFact,
    RunStateChanged,
    SessionEnded,
    SessionStarted,
    WorkerAttested,
    WorkerRegistered,
)
from tallystick.runs.journal import Journal
from tallystick.runs.runner import Runner
from tallystick.runs.stale import Changes, stale
from tallystick.runs.state import RecordedArtifact, RunReducer, RunState, WorkItem
from tallystick.runs.workflow import Graph, Workflow
from tallystick.runs.workspace import Content, Workspace
from tallystick.store.store import Store

PARALLEL_MAX = 256


class Attestation(msgspec.Struct, frozen=True):
    """Evidence about a worker's hardware, and its kind."""

    kind: str
    evidence: bytes


class RunnerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who executes nodes, and how. It is recorded with the session, so that it can be queried later."""

    actor: str = ""
    worker: str = ""
    parallel: int = 1
    attestation: Attestation | None = None
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        if type(self.parallel) is not int or not 1 <= self.parallel <= PARALLEL_MAX:
            raise errors.InvalidValue(what="parallel", value=names.display(self.parallel), must=f"1 to {PARALLEL_MAX}")
        for what, value in (("actor", self.actor), ("worker", self.worker)):
            if value:
                names.check_label(what, value)

    @property
    def worker_name(self) -> str:
        """The worker's name. Default: the host's name."""
        return self.worker or socket.gethostname() or "worker"

    def session(self, workflow: Workflow) -> tuple[str, list[RunFact]]:
        """A new session, and the facts that start it."""
        session = secrets.token_hex(8)
        found = code.commit_of(code.directory_of(workflow))
        hardware = (
            f"{platform.system()} {platform.machine()}, {os.cpu_count() or 1} cores, Python {platform.python_version()}"
        )
        begun: list[RunFact] = [WorkerRegistered(worker=self.worker_name, hardware=hardware)]
        if self.attestation is not None:
            evidence = self.attestation.evidence.hex()
            begun.append(
                WorkerAttested(worker=self.worker_name, attestation_type=self.attestation.kind, attestation=evidence)
            )
        begun.append(
            SessionStarted(
                session=session,
                worker=self.worker_name,
                actor=self.actor or "unnamed",
                pid=os.getpid(),
                commit=found.id,
                dirty=found.dirty,
            )
        )
        return session, begun


def workspace_of(store: Store, run: str, given: str | None) -> Workspace:
    """The directory of a run's files: the given one, or next to its log, or below the current directory."""
    if given is not None:
        return Workspace(given)
    documents = store.log.run_documents
    return Workspace(f"{documents.place(run)}/artifacts" if documents is not None else f"runs/{run}")


def recorded_place(store: Store, place: Workspace, given: str | None) -> str | None:
    """The directory as it is recorded: an absolute path; empty if it is next to the log, which may move."""
    beside = given is None and store.log.run_documents is not None
    return None if beside else os.path.abspath(place.directory)


def new_run_id(workflow: Workflow, now: int) -> str:
    """A new unique run id: workflow, time and a random part."""
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in workflow.name.lower()).strip("-") or "run"
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now // 1_000_000_000))
    return f"{name[:100]}-{moment}-{secrets.token_hex(3)}"


def start(
    store: Store,
    workflow: Workflow,
    *,
    run: str | None = None,
    workspace: str | None = None,
    inputs: dict[str, str] | None = None,
    reference: str | None = None,
    runner: RunnerInfo | None = None,
) -> RunState:
    """Create a run of a workflow and execute it. Returns its final state.

    `inputs` names files to copy in. Raises `RunFault` if a node failed after all retries; the run can then be resumed.
    """
    runner = runner or RunnerInfo()
    graph = workflow.graph()
    run = run or new_run_id(workflow, store.clock())
    stream = journal.stream_of(run)
    names.kind_of(stream)
    if store.stream_head(stream) is not None:
        raise errors.RunExists(run=run)
    with runner_guard.held(store, stream):
        place = workspace_of(store, run, workspace)
        _take_inputs(workflow, place, inputs or {})
        seen = [found for name in workflow.inputs if (found := _seen(workflow, place, name, None))]
        session, begun = runner.session(workflow)
        written = Journal(store, run, RunReducer(run))
        created = RunCreated(
            workflow=workflow.name, reference=reference, workspace=recorded_place(store, place, workspace)
        )
        declared = list(graph.nodes.values())
        state = RunStateChanged(state="running")
        written.record([created, *workflow.declared_inputs(), *declared, *seen, *begun, state])
        written.save_snapshot()
        return _carry_out(written, workflow, graph, place, session, runner)


def resume(
    store: Store,
    workflow: Workflow,
    run: str,
    *,
    workspace: str | None = None,
    inputs: dict[str, str] | None = None,
    force: Iterable[str] = (),
    accept_changes: bool = False,
    rerun_changed: bool = False,
    runner: RunnerInfo | None = None,
) -> RunState:
    """Continue a run at its first unfinished node. Returns its final state.

    A finished node is not repeated, unless `force` names it, an artifact that it read changed, or its code changed and
    `rerun_changed` is set. If there is nothing to do, nothing is written.
    """
    runner = runner or RunnerInfo()
    graph = workflow.graph()
    names.kind_of(journal.stream_of(run))
    with runner_guard.held(store, journal.stream_of(run)):
        reducer = recovery.for_resume(store, run)
        place = workspace_of(store, run, workspace or reducer.state.workspace)
        _take_inputs(workflow, place, inputs or {})
        differing = differences(workflow, graph, reducer.state)
        if differing and not accept_changes and not rerun_changed:
            listed = ", ".join(f"{node} ({what})" for node, what in differing.items())
            raise errors.CodeChanged(run=run, nodes=listed)
        redone = frozenset(differing) if rerun_changed else frozenset()
        prepared = _prepared(workflow, graph, reducer.state, place, differing, _forced(graph, force), redone)
        written = Journal(store, run, reducer, trace_id=journal.trace_of(store, run))
        if not prepared and _is_over(reducer.state, graph):
            written.seal_if_not_sealed()
            return reducer.state
        session, begun = runner.session(workflow)
        written.record([*prepared, *begun, RunStateChanged(state="running")])
        return _carry_out(written, workflow, graph, place, session, runner)


def _prepared(
    workflow: Workflow,
    graph: Graph,
    state: RunState,
    place: Workspace,
    differing: dict[str, str],
    forced: frozenset[str],
    redone: frozenset[str],
) -> list[RunFact]:
    """The facts to record before a run continues: what changed, and what is stale because of that."""
    changes, seen = _changes(workflow, graph, state, place, forced, redone)
    finished = [item.node for item in state.work_items if item.state == "finished"]
    found = stale(graph, changes, finished=finished)
    return [*_lost(state), *_redeclared(workflow, graph, state, differing), *seen, *_marked(found, graph, state)]


def _is_over(state: RunState, graph: Graph) -> bool:
    done = sum(item.state == "finished" for item in state.work_items)
    return done == len(graph.nodes) and state.run_state == "finished"


def _carry_out(
    written: Journal, workflow: Workflow, graph: Graph, place: Workspace, session: str, runner: RunnerInfo
) -> RunState:
    Runner(
        written,
        workflow,
        graph,
        place,
        session=session,
        worker=runner.worker_name,
        parallel=runner.parallel,
        sleep=runner.sleep,
    ).run()
    return written.state


def _take_inputs(workflow: Workflow, place: Workspace, given: dict[str, str]) -> None:
    for name, source in given.items():
        if name not in workflow.inputs:
            raise errors.ArtifactUnknown(node="", artifact=name, reason="is not an input of the workflow")
        if not Path(source).is_file():
            raise errors.InputMissing(artifact=name, path=source)
        place.take(Path(source), workflow.inputs[name].place)


def _seen(workflow: Workflow, place: Workspace, name: str, known: RecordedArtifact | None) -> ArtifactSeen | None:
    """The fact about a changed input, otherwise None. An artifact that a node wrote under that name does not count."""
    declared = workflow.inputs[name]
    found = place.look(declared.place)
    if found is None:
        raise errors.InputMissing(artifact=name, path=str(place.path(declared.place)))
    was = known.sha256 if known is not None and known.node is None else None
    if found.sha256 == was and known is not None and known.path == declared.place:
        return None
    return ArtifactSeen(
        artifact=name,
        path=declared.place,
        sha256=found.sha256,
        bytes=found.bytes,
        schema_id=declared.schema_id,
        was=was,
    )


def differences(workflow: Workflow, graph: Graph, state: RunState) -> dict[str, str]:
    """The nodes that differ from their declaration in the run, and how."""
    known = {item.node: item for item in state.work_items}
    found = {name: _difference(node, known[name]) for name, node in graph.nodes.items() if name in known}
    changed = {name: what for name, what in found.items() if what}
    changed |= {name: "new" for name in graph.nodes if name not in known}
    return changed | {name: "removed" for name in known if name not in graph.nodes}


def _difference(node: NodeDeclared, item: WorkItem) -> str:
    for what in ("inputs", "outputs", "after", "params", "section", "code"):
        if getattr(node, what) != getattr(item, what):
            return what
    return ""


def _forced(graph: Graph, force: Iterable[str]) -> frozenset[str]:
    forced = frozenset(force)
    for name in sorted(forced):
        if name not in graph.nodes:
            raise errors.NodeFault(node=name, reason="it is not a node of the workflow")
    return forced


def _changes(
    workflow: Workflow,
    graph: Graph,
    state: RunState,
    place: Workspace,
    forced: frozenset[str],
    redone: frozenset[str],
) -> tuple[Changes, list[RunFact]]:
    """What changed since nodes finished, and the facts to record about it."""
    index = state.artifacts_index
    seen: list[RunFact] = []
    changed, missing = set(), set()
    for name in workflow.inputs:
        found = _seen(workflow, place, name, index.get(name))
        if found is not None:
            seen.append(found)
            changed |= {name} if found.sha256 != found.was else set()
    states = {item.node: item.state for item in state.work_items}
    for name in graph.order:
        outputs = graph.nodes[name].outputs
        if name not in states:  # a new node: no node has read its outputs yet
            changed |= {output.artifact for output in outputs}
        for output in outputs if states.get(name) == "finished" else ():
            known, content = index.get(output.artifact), place.look(output.path)
            if known is None or known.node != name or content is None:
                missing.add(output.artifact)
            elif (content.sha256, output.path) != (known.sha256, known.path):
                changed |= {output.artifact} if content.sha256 != known.sha256 else set()
                seen.append(_found(output, content, was=known.sha256))
    artifacts, gone = frozenset(changed), frozenset(missing)
    redone = frozenset(name for name in redone if name in graph.nodes)
    return Changes(artifacts=artifacts, missing=gone, forced=forced, code=redone), seen


def _found(output: Output, content: Content, *, was: str) -> ArtifactSeen:
    """The fact about an output that changed since its node wrote it."""
    return ArtifactSeen(
        artifact=output.artifact,
        path=output.path,
        sha256=content.sha256,
        bytes=content.bytes,
        schema_id=output.schema_id,
        was=was,
    )


def _lost(state: RunState) -> list[RunFact]:
    """Sessions that ended without recording it."""
    return [SessionEnded(session=item.session, status="lost") for item in state.sessions if item.status == "open"]


def _redeclared(workflow: Workflow, graph: Graph, state: RunState, differing: dict[str, str]) -> list[RunFact]:
    """The declarations that differ from those in the run."""
    known = {name: (item.path, item.schema_id) for name, item in state.inputs.items()}
    inputs = [item for item in workflow.declared_inputs() if known.get(item.artifact) != (item.path, item.schema_id)]
    removed = [NodeRemoved(node=name) for name in differing if name not in graph.nodes]
    return [*inputs, *removed, *(graph.nodes[name] for name in graph.order if name in differing)]


def _marked(found: dict[str, str], graph: Graph, state: RunState) -> list[RunFact]:
    """The facts about stale nodes and the artifacts that they wrote."""
    marked: list[RunFact] = []
    for node, because in found.items():
        marked.append(NodeStale(node=node, because=because))
        for output in graph.nodes[node].outputs:
            known = state.artifacts_index.get(output.artifact)
            if (
                known is not None and known.node == node
            ):  # otherwise another node wrote it, and it is marked with that one
                marked.append(ArtifactStale(artifact=output.artifact, because=because))
    return marked
