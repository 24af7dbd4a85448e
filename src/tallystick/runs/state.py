"""The state of a run, and the reducer that computes it from the run's events and nothing else.

Everything has a stable order: nodes and their issues as declared, sessions as they started, names by code point when
written. Nodes that ran in parallel leave the same state as nodes that ran one after the other, except for times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tallystick.event.model import Event
from tallystick.runs import facts
from tallystick.runs.facts import NodeStatus, Output, Parent, RunFact, RunStatus, SessionStatus, Severity

FORMAT = 1

# gc=False below: a state is a tree without cycles, and may have many thousand parts


class RecordedArtifact(msgspec.Struct, kw_only=True, gc=False):
    """One entry of the artifacts index."""

    path: str
    sha256: str
    bytes: int
    schema_id: str | None
    writer_worker: str | None
    node: str | None
    ts: int
    stale: bool = False


class AttemptRecord(msgspec.Struct, kw_only=True, gc=False):
    """One attempt at a node."""

    attempt: int
    session: str
    status: str
    inputs: dict[str, str]
    outputs: dict[str, str] = {}
    error: str | None = None
    started_at: int
    ended_at: int | None = None


class WorkItem(msgspec.Struct, kw_only=True, gc=False):
    """A node: its declaration, its state, and every attempt."""

    node: str
    state: NodeStatus = "pending"
    code: str
    inputs: list[str]
    outputs: list[Output]
    after: list[str]
    params: dict[str, Any]
    section: str | None
    declared_at: int
    attempts: int = 0
    history: list[AttemptRecord] = []
    stale_because: str | None = None
    inherited_from: str | None = None


class Issue(msgspec.Struct, kw_only=True, gc=False):
    """A problem, open or resolved."""

    issue: str
    code: str
    severity: Severity
    message: str
    node: str | None
    state: str = "open"
    opened_at: int
    resolved_at: int | None = None
    how: str | None = None


class RunSession(msgspec.Struct, kw_only=True, gc=False):
    """The time one worker works on the run."""

    session: str
    worker: str
    actor: str
    pid: int
    commit: str | None
    dirty: bool
    status: SessionStatus = "open"
    started_at: int
    ended_at: int | None = None


class Worker(msgspec.Struct, kw_only=True, gc=False):
    """A process that executes nodes."""

    hardware: str
    registered_at: int
    seen_at: int
    attestation_type: str | None = None
    attestation: str | None = None
    attested_at: int | None = None


class InputFile(msgspec.Struct, kw_only=True, gc=False):
    """An artifact from outside the workflow."""

    path: str
    schema_id: str | None


class RunState(msgspec.Struct, kw_only=True):
    """A run after the event `seq`, whose link is `link`."""

    format: int = FORMAT
    run_id: str
    run_state: RunStatus = "created"
    workflow: str = ""
    reference: str | None = None
    workspace: str | None = None
    parent: Parent | None = None
    org: str | None = None
    seq: int = 0
    link: str = ""
    created_at: int = 0
    updated_at: int = 0
    section_states: dict[str, NodeStatus] = {}
    inputs: dict[str, InputFile] = {}
    artifacts_index: dict[str, RecordedArtifact] = {}
    work_items: list[WorkItem] = []
    removed_items: list[WorkItem] = []
    issues: list[Issue] = []
    sessions: list[RunSession] = []
    workers: dict[str, Worker] = {}


class RunReducer:
    """Folds events into a state. It caches lookups next to the state; only the state is the result."""

    def __init__(self, run_id: str, state: RunState | None = None) -> None:
        self.state = state or RunState(run_id=run_id)
        self.begun_at = self.state.seq  # that of the snapshot it continues from
        self.items = {item.node: item for item in self.state.work_items}
        self._order = {node: rank for rank, node in enumerate(self.items)}  # by first declaration
        self.issues = {issue.issue: issue for issue in self.state.issues}
        self._sessions = {session.session: session for session in self.state.sessions}

    def fold(self, events: Iterable[Event]) -> None:
        """Fold recorded events in their order."""
        for event in events:
            fact = facts.decode(event.type, event.payload)
            if fact is not None:
                self.apply(fact, event.time)
            self.moved(seq=event.seq, link=event.link, time=event.time)
            if b'"org"' in event.meta and self.state.org is None:
                self.state.org = event.metadata.get("org")

    def moved(self, *, seq: int, link: bytes, time: int) -> None:
        """Record how far the log was folded."""
        self.state.seq, self.state.link, self.state.updated_at = seq, link.hex(), time

    def apply(self, fact: RunFact, time: int) -> None:
        """Fold one fact."""
        _APPLY[type(fact)](self, fact, time)

    # --- the run ---------------------------------------------------------------------------------------------------

    def _run_created(self, fact: facts.RunCreated, time: int) -> None:
        if fact.parent is not None:
            self._inherit(fact.parent)
        state = self.state
        state.workflow, state.reference = fact.workflow, fact.reference
        state.workspace, state.parent = fact.workspace, fact.parent
        state.run_state, state.created_at = "created", time

    def _inherit(self, parent: Parent) -> None:
        """Keep what had finished before the fork; the rest is pending."""
        for item in self.state.work_items:
            if item.state == "finished":
                item.inherited_from = item.inherited_from or parent.stream
            else:
                item.state, item.attempts, item.history, item.stale_because = "pending", 0, [], None
        self.state.issues, self.state.sessions, self.state.workers = [], [], {}
        self.state.removed_items = []
        self.issues, self._sessions = {}, {}

    def _run_state(self, fact: facts.RunStateChanged, time: int) -> None:
        self.state.run_state = fact.state

    def _section_state(self, fact: facts.SectionStateChanged, time: int) -> None:
        self.state.section_states[fact.section] = fact.state

    # --- workers and sessions --------------------------------------------------------------------------------------

    def _worker(self, fact: facts.WorkerRegistered, time: int) -> None:
        known = self.state.workers.get(fact.worker)
        if known is None:
            self.state.workers[fact.worker] = Worker(hardware=fact.hardware, registered_at=time, seen_at=time)
        else:
            known.hardware, known.seen_at = fact.hardware, time

    def _attested(self, fact: facts.WorkerAttested, time: int) -> None:
        worker = self.state.workers[fact.worker]
        worker.attestation_type, worker.attestation = fact.attestation_type, fact.attestation
        worker.attested_at = worker.seen_at = time

    def _session_started(self, fact: facts.SessionStarted, time: int) -> None:
        session = RunSession(**fact.payload(), started_at=time)
        self.state.sessions.append(session)
        self._sessions[fact.session] = session
        if fact.worker in self.state.workers:
            self.state.workers[fact.worker].seen_at = time

    def _session_ended(self, fact: facts.SessionEnded, time: int) -> None:
        session = self._sessions[fact.session]
        session.status, session.ended_at = fact.status, time
        if session.worker in self.state.workers:
            self.state.workers[session.worker].seen_at = time
        for item in self.state.work_items:
            if item.state == "running" and item.history[-1].session == fact.session:
                item.state = "pending"
                item.history[-1].status, item.history[-1].ended_at = fact.status, time

    # --- nodes -----------------------------------------------------------------------------------------------------

    def _input_declared(self, fact: facts.InputDeclared, time: int) -> None:
        self.state.inputs[fact.artifact] = InputFile(path=fact.path, schema_id=fact.schema_id)

    def _node_declared(self, fact: facts.NodeDeclared, time: int) -> None:
        known = self.items.get(fact.node)
        if known is None:
            known = self.items[fact.node] = self._returned(fact.node) or WorkItem(
                node=fact.node, code="", inputs=[], outputs=[], after=[], params={}, section=None, declared_at=time
            )
            self.state.work_items.append(known)
            self._order.setdefault(fact.node, len(self._order))
        if known.outputs:
            made = {output.artifact for output in fact.outputs}
            self._forget(known, [output for output in known.outputs if output.artifact not in made])
        known.code, known.inputs, known.outputs = fact.code, fact.inputs, fact.outputs
        known.after, known.params, known.section = fact.after, fact.params, fact.section
        if fact.section is not None:
            self.state.section_states.setdefault(fact.section, "pending")

    def _node_removed(self, fact: facts.NodeRemoved, time: int) -> None:
        item = self.items.pop(fact.node)
        self.state.work_items = [other for other in self.state.work_items if other is not item]
        self.state.removed_items.append(item)
        self._forget(item, item.outputs)

    def _returned(self, node: str) -> WorkItem | None:
        """A removed node that is declared again: it is pending, and its attempts continue to be counted."""
        for item in self.state.removed_items:
            if item.node == node:
                self.state.removed_items = [other for other in self.state.removed_items if other is not item]
                item.state, item.stale_because, item.inherited_from = "pending", None, None
                return item
        return None

    def _forget(self, item: WorkItem, outputs: list[Output]) -> None:
        """Forget artifacts that this node no longer writes."""
        for output in outputs:
            known = self.state.artifacts_index.get(output.artifact)
            if known is not None and known.node == item.node:
                del self.state.artifacts_index[output.artifact]

    def _node_started(self, fact: facts.NodeStarted, time: int) -> None:
        item = self.items[fact.node]
        item.state, item.attempts, item.stale_because = "running", fact.attempt, None
        item.history.append(
            AttemptRecord(
                attempt=fact.attempt, session=fact.session, status="started", inputs=fact.inputs, started_at=time
            )
        )

    def _node_finished(self, fact: facts.NodeFinished, time: int) -> None:
        item = self.items[fact.node]
        item.state, item.inherited_from = "finished", None
        item.history[-1].status, item.history[-1].ended_at = "finished", time

    def _node_failed(self, fact: facts.NodeFailed, time: int) -> None:
        item = self.items[fact.node]
        item.state = "failed"
        last = item.history[-1]
        last.status, last.ended_at, last.error = "failed", time, fact.error

    def _node_stale(self, fact: facts.NodeStale, time: int) -> None:
        item = self.items[fact.node]
        item.state, item.stale_because = "stale", fact.because

    # --- artifacts and issues --------------------------------------------------------------------------------------

    def _artifact_written(self, fact: facts.ArtifactWritten, time: int) -> None:
        self.state.artifacts_index[fact.artifact] = RecordedArtifact(
            path=fact.path,
            sha256=fact.sha256,
            bytes=fact.bytes,
            schema_id=fact.schema_id,
            writer_worker=fact.writer_worker,
            node=fact.node,
            ts=time,
        )
        self.items[fact.node].history[-1].outputs[fact.artifact] = fact.sha256

    def _artifact_seen(self, fact: facts.ArtifactSeen, time: int) -> None:
        known = self.state.artifacts_index.get(fact.artifact)
        self.state.artifacts_index[fact.artifact] = RecordedArtifact(
            path=fact.path,
            sha256=fact.sha256,
            bytes=fact.bytes,
            schema_id=fact.schema_id,
            writer_worker=None,
            node=known.node if known else None,
            ts=time,
        )

    def _artifact_stale(self, fact: facts.ArtifactStale, time: int) -> None:
        self.state.artifacts_index[fact.artifact].stale = True

    def _issue_opened(self, fact: facts.IssueOpened, time: int) -> None:
        issue = Issue(**fact.payload(), opened_at=time)
        issues, order = self.state.issues, self._order
        at, rank = len(issues), order.get(fact.node or "", 0)
        while at and order.get(issues[at - 1].node or "", 0) > rank:
            at -= 1
        issues.insert(at, issue)
        self.issues[fact.issue] = issue

    def _issue_resolved(self, fact: facts.IssueResolved, time: int) -> None:
        issue = self.issues[fact.issue]
        issue.state, issue.resolved_at, issue.how = "resolved", time, fact.how


_APPLY: dict[type[RunFact], Callable[[RunReducer, Any, int], None]] = {
    facts.RunCreated: RunReducer._run_created,
    facts.RunStateChanged: RunReducer._run_state,
    facts.SectionStateChanged: RunReducer._section_state,
    facts.WorkerRegistered: RunReducer._worker,
    facts.WorkerAttested: RunReducer._attested,
    facts.SessionStarted: RunReducer._session_started,
    facts.SessionEnded: RunReducer._session_ended,
    facts.InputDeclared: RunReducer._input_declared,
    facts.NodeDeclared: RunReducer._node_declared,
    facts.NodeRemoved: RunReducer._node_removed,
    facts.NodeStarted: RunReducer._node_started,
    facts.NodeFinished: RunReducer._node_finished,
    facts.NodeFailed: RunReducer._node_failed,
    facts.NodeStale: RunReducer._node_stale,
    facts.ArtifactWritten: RunReducer._artifact_written,
    facts.ArtifactSeen: RunReducer._artifact_seen,
    facts.ArtifactStale: RunReducer._artifact_stale,
    facts.IssueOpened: RunReducer._issue_opened,
    facts.IssueResolved: RunReducer._issue_resolved,
}
